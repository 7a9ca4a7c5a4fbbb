package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Where the parts of the image are, in sectors. GRUB and its core fit before the kernel.
const (
	kernelAt  = 2048
	imageSize = 64 << 20
)

// grub is where Debian has the parts of GRUB for a BIOS.
const grub = "/usr/lib/grub/i386-pc"

// sshServer is the SSH server of the image's guest: a tenth of the size of OpenSSH's.
const sshServer = "/usr/sbin/dropbear"

// BuildImage writes a disk image that boots without help, as the cloud images of distributions do: GRUB, the kernel,
// and the initramfs of Build with an SSH server. Its guest makes the users that cloud-init's medium names. The format
// is qcow2.
func BuildImage(file, cmdline string) error {
	kernelFile, modules, err := findKernel()
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile(kernelFile)
	if err != nil {
		return fmt.Errorf("reading the kernel: %w", err)
	}
	a := newArchive()
	if err := errors.Join(addPrograms(a), addModules(a, modules), addProgram(a, "bin/dropbear", sshServer)); err != nil {
		return err
	}
	addFiles(a)
	initrd := a.bytes()
	initrdAt := kernelAt + sectors(kernel)
	core, err := bootLoader(fmt.Sprintf("linux (hd0)%d+%d %s seed\ninitrd (hd0)%d+%d\nboot\n",
		kernelAt, sectors(kernel), cmdline, initrdAt, sectors(initrd)))
	if err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(grub, "boot.img"))
	if err != nil {
		return fmt.Errorf("reading GRUB's boot sector: %w", err)
	}
	disk := make([]byte, imageSize)
	end := 0
	for _, part := range []struct {
		sector  int
		content []byte
	}{{0, first}, {1, core}, {kernelAt, kernel}, {initrdAt, initrd}} {
		at := part.sector * sector
		if at < end || at+len(part.content) > len(disk) {
			return errors.New("the parts of the image overlap, or don't fit on it")
		}
		end = at + copy(disk[at:], part.content)
	}
	return convert(disk, file)
}

func sectors(content []byte) int { return (len(content) + sector - 1) / sector }

// bootLoader makes GRUB's core, which begins with what loads the rest of it from the sectors that follow.
func bootLoader(config string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "virtfleet-grub-")
	if err != nil {
		return nil, fmt.Errorf("creating the boot loader: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	in, out := filepath.Join(dir, "grub.cfg"), filepath.Join(dir, "core.img")
	if err := os.WriteFile(in, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("creating the boot loader: %w", err)
	}
	//nolint:noctx // it reads files.
	cmd := exec.Command("grub-mkimage", "-O", "i386-pc", "-p", "/", "-c", in, "-o", out, "biosdisk", "linux")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("creating the boot loader: %w: %s", err, said)
	}
	return os.ReadFile(out)
}

// convert writes a disk's content as a qcow2 image, which appears at once.
func convert(disk []byte, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("writing the guest's image: %w", err)
	}
	raw := file + ".raw"
	defer func() { _ = os.Remove(raw) }()
	if err := os.WriteFile(raw, disk, 0o600); err != nil {
		return fmt.Errorf("writing the guest's image: %w", err)
	}
	cmd := exec.Command("qemu-img", "convert", "-O", "qcow2", raw, file+".new") //nolint:noctx // it reads one file.
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing the guest's image: %w: %s", err, said)
	}
	return os.Rename(file+".new", file)
}

// addProgram adds a program with its libraries.
func addProgram(a *archive, name, from string) error {
	if err := addHostFile(a, name, from); err != nil {
		return err
	}
	out, err := exec.Command("ldd", from).Output() //nolint:noctx // it reads one file.
	if err != nil {
		return fmt.Errorf("finding the libraries of %s: %w", from, err)
	}
	for _, word := range strings.Fields(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		if err := addHostFile(a, word[1:], word); err != nil {
			return err
		}
	}
	return nil
}
