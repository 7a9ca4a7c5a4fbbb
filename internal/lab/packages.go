package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// requirement is a Debian package and a file that shows that it is installed. Other distributions put the same files
// into packages of other names, so the file is what counts.
type requirement struct{ pkg, file string }

// forBuild lists what "go build" needs in addition to Go: a C compiler and libvirt's headers.
var forBuild = []requirement{
	{"gcc", "/usr/bin/gcc"},
	{"libc6-dev", "/usr/include/stdio.h"},
	{"libvirt-dev", "/usr/include/libvirt/libvirt.h"},
	{"pkg-config", "/usr/bin/pkg-config"},
}

// storageBackends is where libvirt's drivers of storage pools are.
const storageBackends = "/usr/lib/x86_64-linux-gnu/libvirt/storage-backend/"

// forLab lists what the lab's hosts and guests, the tests and the linters need in addition.
var forLab = []requirement{
	{"busybox-static", "/bin/busybox"},
	{"ceph-common", "/usr/bin/rbd"},
	{"ceph-mon", "/usr/bin/ceph-mon"},
	{"ceph-osd", "/usr/bin/ceph-osd"},
	{"curl", "/usr/bin/curl"},
	{"dbus", "/lib/systemd/system/dbus.service"},
	{"dbus-daemon", "/usr/bin/dbus-daemon"},
	{"dbus-system-bus-common", "/usr/share/dbus-1/system.conf"},
	{"dnsmasq-base", "/usr/sbin/dnsmasq"},
	{"dropbear-bin", "/usr/sbin/dropbear"},
	{"git", "/usr/bin/git"},
	{"glusterfs-server", "/usr/sbin/glusterd"},
	{"grub-common", "/usr/bin/grub-mkimage"},
	{"grub-pc-bin", "/usr/lib/grub/i386-pc/boot.img"},
	{"ignition", "/usr/lib/dracut/modules.d/30ignition/ignition"},
	{"iproute2", "/sbin/ip"},
	{"iptables", "/usr/sbin/iptables"},
	{"jq", "/usr/bin/jq"},
	{"libvirt-clients", "/usr/bin/virsh"},
	{"libvirt-daemon-driver-qemu", "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"},
	{"libvirt-daemon-system", "/etc/libvirt/libvirtd.conf"},
	{"libvirt-daemon-driver-storage-gluster", storageBackends + "libvirt_storage_backend_gluster.so"},
	{"libvirt-daemon-driver-storage-iscsi-direct", storageBackends + "libvirt_storage_backend_iscsi-direct.so"},
	{"libvirt-daemon-driver-storage-rbd", storageBackends + "libvirt_storage_backend_rbd.so"},
	{"libvirt-daemon-driver-storage-zfs", storageBackends + "libvirt_storage_backend_zfs.so"},
	{"libxml2-utils", "/usr/bin/xmllint"},
	{"linux-image-cloud-amd64", "/boot/vmlinuz-*-cloud-amd64"},
	{"lvm2", "/sbin/vgcreate"},
	{"lz4", "/usr/bin/lz4"},
	{"make", "/usr/bin/make"},
	{"mmdebstrap", "/usr/bin/mmdebstrap"},
	{"mount", "/bin/mount"},
	{"netcat-openbsd", "/bin/nc.openbsd"},
	{"openssh-client", "/usr/bin/ssh-keygen"},
	{"openssh-server", "/usr/sbin/sshd"},
	{"openvswitch-switch", "/usr/sbin/ovs-vswitchd"},
	{"ovmf", "/usr/share/OVMF/OVMF_CODE_4M.fd"},
	{"parted", "/sbin/parted"},
	{"polkitd", "/usr/lib/polkit-1/polkitd"},
	{"procps", "/usr/bin/ps"},
	{"prometheus", "/usr/bin/promtool"},
	{"qemu-block-extra", "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so"},
	{"qemu-guest-agent", "/usr/sbin/qemu-ga"},
	{"qemu-system-x86", "/usr/bin/qemu-system-x86_64"},
	{"qemu-utils", "/usr/bin/qemu-nbd"},
	{"swtpm", "/usr/bin/swtpm"},
	{"swtpm-tools", "/usr/bin/swtpm_setup"},
	{"systemd", "/usr/bin/systemd-analyze"},
	{"systemd-container", "/lib/systemd/system/systemd-machined.service"},
	{"tgt", "/usr/sbin/tgtd"},
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

// Purpose says what packages are needed for.
type Purpose int

const (
	// Everything is the lab, the tests and the build.
	Everything Purpose = iota
	// Build is building the provider, and nothing else.
	Build
)

// MissingPackages returns the Debian packages that this machine lacks for a purpose.
func MissingPackages(purpose Purpose) []string {
	needed := forBuild
	if purpose == Everything {
		needed = slices.Concat(forBuild, forLab)
	}
	var missing []string
	for _, r := range needed {
		if found, err := filepath.Glob(r.file); err != nil || len(found) == 0 {
			missing = append(missing, r.pkg)
		}
	}
	return missing
}

// InstallPackages installs what is missing, as root, with apt-get. It returns a MissingError for other users and on
// machines without apt-get.
func InstallPackages(ctx context.Context, purpose Purpose) error {
	missing := MissingPackages(purpose)
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
	if still := MissingPackages(purpose); len(still) > 0 {
		return fmt.Errorf("after the installation: %w", &MissingError{Packages: still})
	}
	return nil
}
