package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// requirement is a Debian package and a file by which it is recognised. Looking for the file instead of asking dpkg
// lets other distributions do.
type requirement struct{ pkg, file string }

// requirements are what the lab, the build and the tests need beside Go and Terraform.
var requirements = []requirement{
	{"busybox-static", "/bin/busybox"},
	{"dnsmasq-base", "/usr/sbin/dnsmasq"},
	{"gcc", "/usr/bin/gcc"},
	{"git", "/usr/bin/git"},
	{"iproute2", "/sbin/ip"},
	{"iptables", "/usr/sbin/iptables"},
	{"libc6-dev", "/usr/include/stdio.h"},
	{"libvirt-clients", "/usr/bin/virsh"},
	{"libvirt-daemon-driver-qemu", "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"},
	{"libvirt-daemon-system", "/etc/libvirt/libvirtd.conf"},
	{"libvirt-dev", "/usr/include/libvirt/libvirt.h"},
	{"libxml2-utils", "/usr/bin/xmllint"},
	{"linux-image-cloud-amd64", "/boot/vmlinuz-*-cloud-amd64"},
	{"lz4", "/usr/bin/lz4"},
	{"make", "/usr/bin/make"},
	{"mount", "/bin/mount"},
	{"netcat-openbsd", "/bin/nc.openbsd"},
	{"openssh-client", "/usr/bin/ssh-keygen"},
	{"openssh-server", "/usr/sbin/sshd"},
	{"ovmf", "/usr/share/OVMF/OVMF_CODE_4M.fd"},
	{"pkg-config", "/usr/bin/pkg-config"},
	{"procps", "/usr/bin/ps"},
	{"prometheus", "/usr/bin/promtool"},
	{"qemu-guest-agent", "/usr/sbin/qemu-ga"},
	{"qemu-system-x86", "/usr/bin/qemu-system-x86_64"},
	{"qemu-utils", "/usr/bin/qemu-nbd"},
	{"swtpm", "/usr/bin/swtpm"},
	{"swtpm-tools", "/usr/bin/swtpm_setup"},
	{"util-linux", "/usr/bin/nsenter"},
}

// MissingError lists Debian packages that are needed and not installed.
type MissingError struct {
	// Packages are the names of the packages.
	Packages []string
}

// Error says which packages are missing and how to install them.
func (e *MissingError) Error() string {
	list := strings.Join(e.Packages, " ")
	return "packages are missing: " + list + "\ninstall them as root: apt-get install --no-install-recommends " + list
}

// MissingPackages returns the Debian packages that the lab and the build need and this machine lacks.
func MissingPackages() []string {
	var missing []string
	for _, r := range requirements {
		if found, err := filepath.Glob(r.file); err != nil || len(found) == 0 {
			missing = append(missing, r.pkg)
		}
	}
	return missing
}

// InstallPackages installs what is missing, as root, with apt-get. Elsewhere it returns a MissingError.
func InstallPackages(ctx context.Context) error {
	missing := MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return &MissingError{Packages: missing}
	}
	install := append([]string{"install", "--yes", "--no-install-recommends"}, missing...)
	for _, args := range [][]string{{"update"}, install} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		// No service is started by the installation: the lab starts its own.
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err)
		}
	}
	if still := MissingPackages(); len(still) > 0 {
		return fmt.Errorf("after the installation: %w", &MissingError{Packages: still})
	}
	return nil
}
