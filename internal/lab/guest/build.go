package guest

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed init.sh
var initScript []byte

//go:embed udhcpc.script
var dhcpScript []byte

//go:embed shutdown.sh
var shutdownScript []byte

//go:embed stir/stir.c
var stirProgram []byte

const osRelease = `ID=virtfleet-lab
NAME="Virtfleet lab guest"
PRETTY_NAME="Virtfleet lab guest 1"
VERSION="1"
VERSION_ID="1"
`

// kernelPattern finds the kernels whose drivers are modules; the running kernel has nothing to do with it.
const kernelPattern = "/boot/vmlinuz-*-cloud-amd64"

// loadOrder says which modules the guest loads when, with what each needs before it. The ring comes before the bus that
// uses it, although the modules' own dependencies don't say so.
var loadOrder = map[string][]string{
	"first": {"virtio_ring", "virtio", "virtio_pci", "virtio_console"},
	"then":  {"virtio_net", "virtio_blk", "virtio_balloon", "virtio_mem", "virtio_scsi", "sd_mod", "sr_mod"},
	"acpi":  {"evdev", "button"},
	"panic": {"pvpanic_mmio"},
	"seed":  {"isofs"},
	// Left to tests: a network device that is unknown outside the guest, what shows QEMU's fw_cfg and its RNG, and what
	// mounts a directory of the host.
	"dummy":    {"dummy"},
	"probes":   {"qemu_fw_cfg", "virtio_rng"},
	"virtiofs": {"virtiofs"},
}

// applets are the commands of busybox that the guest uses.
var applets = []string{
	"acpid", "cat", "chmod", "chown", "dd", "df", "echo", "free", "halt", "hostname", "insmod", "ip", "ls", "mkdir",
	"mount", "poweroff",
	"ps", "reboot", "sh", "sleep", "sync", "udhcpc", "umount", "uname", "uptime", "vi",
}

// Build writes the kernel (vmlinux, for guests with a BIOS) and the initramfs (initrd.img) to dir, unless they are
// there, made from the same parts.
func Build(dir string) error {
	kernel, modules, err := findKernel()
	if err != nil {
		return err
	}
	a := newArchive()
	if err := addPrograms(a); err != nil {
		return err
	}
	if err := addModules(a, modules); err != nil {
		return err
	}
	addFiles(a)
	content := a.bytes()
	image, err := os.ReadFile(kernel)
	if err != nil {
		return fmt.Errorf("reading the kernel: %w", err)
	}
	sum := sha256.New()
	sum.Write(content)
	sum.Write(image)
	id := hex.EncodeToString(sum.Sum(nil))
	if have, err := os.ReadFile(filepath.Join(dir, "id")); err == nil && string(have) == id {
		return nil
	}
	elf, err := uncompressed(image)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the guest: %w", err)
	}
	// Hosts have these files under other names, and keep reading what they have.
	for _, name := range []string{"vmlinux", "initrd.img"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("writing the guest: %w", err)
		}
	}
	// The initramfs isn't compressed: QEMU without KVM would spend a third of a second to unpack it, at every boot.
	// The id comes last: it says that the others are complete.
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "vmlinux"), elf, 0o644),
		os.WriteFile(filepath.Join(dir, "initrd.img"), content, 0o644),
		os.WriteFile(filepath.Join(dir, "id"), []byte(id), 0o644),
	)
}

// findKernel returns the newest installed kernel that has modules, and their directory.
func findKernel() (kernel, modules string, err error) {
	kernels, err := filepath.Glob(kernelPattern)
	if err != nil {
		return "", "", fmt.Errorf("looking for a kernel: %w", err)
	}
	var newest os.FileInfo
	for _, candidate := range kernels {
		dir := "/lib/modules/" + strings.TrimPrefix(filepath.Base(candidate), "vmlinuz-")
		info, err := os.Stat(candidate)
		if err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "modules.dep")); err != nil {
			continue
		}
		if newest == nil || info.ModTime().After(newest.ModTime()) {
			newest, kernel, modules = info, candidate, dir
		}
	}
	if newest == nil {
		return "", "", fmt.Errorf("no kernel %s with modules: is linux-image-cloud-amd64 installed?", kernelPattern)
	}
	return kernel, modules, nil
}

func addPrograms(a *archive) error {
	if err := addHostFile(a, "bin/busybox", "/bin/busybox"); err != nil {
		return err
	}
	for _, applet := range applets {
		a.link("bin/"+applet, "busybox")
	}
	if err := addStir(a); err != nil {
		return err
	}
	return addProgram(a, "bin/qemu-ga", "/usr/sbin/qemu-ga")
}

// addStir compiles the only program that no package has.
func addStir(a *archive) error {
	dir, err := os.MkdirTemp("", "virtfleet-guest-")
	if err != nil {
		return fmt.Errorf("compiling stir/stir.c: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "stir")
	gcc := exec.Command( //nolint:noctx // It compiles five lines.
		"gcc", "-Os", "-static", "-nostdlib", "-Wl,--build-id=none", "-x", "c", "-o", program, "-")
	gcc.Stdin = bytes.NewReader(stirProgram)
	if out, err := gcc.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling stir/stir.c: %w: %s", err, out)
	}
	return addHostFile(a, "bin/stir", program)
}

// addModules adds the modules and, per group, the order in which to load them.
func addModules(a *archive, dir string) error {
	dependencies, err := readDependencies(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	// A module belongs to one group: the first to load comes first.
	done := map[string]bool{}
	for _, group := range []string{"first", "then", "acpi", "panic", "seed", "dummy", "probes", "virtiofs"} {
		var order []string
		for _, name := range loadOrder[group] {
			file, ok := dependencies.find(name)
			if !ok {
				return fmt.Errorf("the kernel in %s has no module %s", dir, name)
			}
			for _, needed := range dependencies.order(file) {
				if done[needed] {
					continue
				}
				done[needed] = true
				if err := addModule(a, filepath.Join(dir, needed)); err != nil {
					return err
				}
				order = append(order, filepath.Base(needed))
			}
		}
		a.file("modules/"+group, 0o644, []byte(strings.Join(order, "\n")+"\n"))
	}
	return nil
}

// addModule adds a module without its signature and without types for BPF: checking them is a tenth of a guest's boot
// under QEMU without KVM.
func addModule(a *archive, file string) error {
	dir, err := os.MkdirTemp("", "virtfleet-guest-")
	if err != nil {
		return fmt.Errorf("stripping %s: %w", file, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stripped := filepath.Join(dir, filepath.Base(file))
	objcopy := exec.Command("objcopy", "--remove-section=.BTF", file, stripped) //nolint:noctx // It copies one file.
	if out, err := objcopy.CombinedOutput(); err != nil {
		return fmt.Errorf("stripping %s: %w: %s", file, err, out)
	}
	return addHostFile(a, "modules/"+filepath.Base(file), stripped)
}

func addFiles(a *archive) {
	for _, dir := range []string{"proc", "sys", "dev", "run", "mnt", "tmp", "root"} {
		a.dir(dir)
	}
	a.link("var/run", "/run")
	a.file("init", 0o755, initScript)
	a.file("etc/udhcpc.script", 0o755, dhcpScript)
	a.file("etc/os-release", 0o644, []byte(osRelease))
	a.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	a.file("etc/group", 0o644, []byte("root:x:0:\nusers:x:1000:\n"))
	a.dir("etc/dropbear")
	a.dir("home")
	a.file("sbin/shutdown", 0o755, shutdownScript)
	a.file("etc/acpi/PWRF/00000080", 0o755, shutdownScript)
}

func addHostFile(a *archive, name, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("adding %s to the initramfs: %w", from, err)
	}
	a.file(name, 0o755, data)
	return nil
}
