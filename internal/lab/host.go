package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// identity is what hosts of the lab share with this computer otherwise: its UUID, and the journal.
const identity = `
# Settings of the lab.
host_uuid = "%s"
log_filters = "1:qemu.qemu_migration"
log_outputs = "1:file:` + libvirtdLog + `"
`

// On the read-only socket any user is let in, as polkit's rules do by default: there is no polkit here.
const libvirtdSettings = `
auth_unix_ro = "none"
# Commands of Open vSwitch wait for its process, which may take longer on a busy machine than the usual 5 seconds.
ovs_timeout = 60
`

// libvirtdLog is where a host's libvirtd says what it warns of, and how migrations continue.
const libvirtdLog = "/var/log/libvirt/libvirtd.log"

// qemuSpeed leaves out what takes half a second of every QEMU's start where processors are slow: libvirt asks it for
// each of the 300 properties of its CPU, one by one, unless it thinks that QEMU can't tell which ones are missing.
const qemuSpeed = `
# Settings of the lab.
capability_filters = [ "cpu-unavailable-features" ]
`

// qemuSettings are for privileged hosts. Guests run as root and without confinement: a machine like this has neither
// the security modules nor, unless the host is one of StartHostWithCgroups, the cgroups that libvirt would use.
const qemuSettings = `
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = [%[2]s]
remember_owner = 0
migration_address = "%[1]s"
migration_host = "%[1]s"
`

// quickLUKS is the qemu-img that libvirtd finds in libvirtdPath. LUKS makes a passphrase expensive to guess: the image
// costs two seconds of a processor whenever it is opened, unless it is told otherwise when it is created.
const (
	libvirtdPath = "/etc/libvirt/lab"
	quickLUKS    = `#!/bin/sh
case "$1 $*" in
"create "*encrypt.format=luks* | "convert "*encrypt.format=luks*) option=encrypt.iter-time=10 ;;
"create "*luks* | "convert "*luks*) option=iter-time=10 ;;
*) exec /usr/bin/qemu-img "$@" ;;
esac
command=$1
shift
exec /usr/bin/qemu-img "$command" -o "$option" "$@"
`
)

// defaultNetwork has no firewall, whose rules are sixty processes at every start of libvirtd.
const defaultNetwork = `<network>
  <name>default</name>
  <bridge name='virbr0' stp='off' delay='0'/>
  <forward mode='open'/>
  <ip address='192.168.122.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp>
  </ip>
</network>
`

// networkOfPackage is the network "default" that libvirt's packages define.
const networkOfPackage = "/usr/share/libvirt/networks/default.xml"

const defaultPool = `<pool type='dir'>
  <name>default</name>
  <target><path>/var/lib/libvirt/images</path></target>
</pool>
`

// prepare writes the host's files, as an administrator who sets up a host does.
func (h *Host) prepare(ctx context.Context, l *Lab) error {
	if err := h.machine.prepare(); err != nil {
		return err
	}
	if err := h.prepareSSH(l); err != nil {
		return err
	}
	if err := h.prepareLibvirt(); err != nil || !h.fresh {
		return err
	}
	return h.machine.prepareSystemd(ctx)
}

// installGuest gives the host the guest's kernel and initramfs, also where an older lab left others. libvirt changes
// the owner of files that a guest uses: only hosts where that stays root share the file.
func (h *Host) installGuest(l *Lab) error {
	for from, to := range map[string]string{
		l.guestFile("vmlinux"):    guestKernelPath,
		l.guestFile("initrd.img"): guestInitrdPath,
	} {
		install := linkFile
		if h.Unprivileged {
			install = copyFile
		}
		if err := install(from, h.machine.path(to)); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) prepareLibvirt() error {
	etc := h.machine.path("/etc/libvirt")
	files, err := filepath.Glob("/etc/libvirt/*.conf")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no configuration of libvirt in /etc/libvirt: is libvirt-daemon-system installed? (%w)", err)
	}
	for _, file := range files {
		if err := copyFile(file, filepath.Join(etc, filepath.Base(file))); err != nil {
			return err
		}
	}
	if err := appendFile(filepath.Join(etc, "libvirtd.conf"), fmt.Sprintf(identity, h.HostUUID)); err != nil {
		return err
	}
	if h.fresh {
		return copyFile(networkOfPackage, filepath.Join(etc, "qemu/networks/default.xml"))
	}
	if err := appendFile(filepath.Join(etc, "libvirtd.conf"), libvirtdSettings); err != nil {
		return err
	}
	settings := qemuSpeed
	if !h.Unprivileged {
		controllers := ""
		if h.machine.cgroups {
			controllers = `"` + strings.Join(cgroupControllers, `", "`) + `"`
		}
		settings += fmt.Sprintf(qemuSettings, h.Address, controllers)
	}
	if err := appendFile(filepath.Join(etc, "qemu.conf"), settings); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(etc, filepath.Base(libvirtdPath), "qemu-img"), quickLUKS, 0o755); err != nil {
		return err
	}
	for dir, object := range map[string]string{"qemu/networks": defaultNetwork, "storage": defaultPool} {
		file := filepath.Join(etc, dir, "default.xml")
		if err := writeFile(file, object, 0o600); err != nil {
			return err
		}
		autostart := filepath.Join(etc, dir, "autostart", "default.xml")
		if err := os.MkdirAll(filepath.Dir(autostart), 0o755); err != nil {
			return fmt.Errorf("preparing libvirt on %s: %w", h.Name, err)
		}
		if err := os.Symlink("/etc/libvirt/"+dir+"/default.xml", autostart); err != nil {
			return fmt.Errorf("preparing libvirt on %s: %w", h.Name, err)
		}
	}
	return nil
}

// start boots the host: namespaces, network, services. Its files must be there.
func (h *Host) start(ctx context.Context) error {
	if pid, err := h.machine.pid(); err != nil || pid == 0 {
		if err != nil {
			return err
		}
		if err := h.machine.start(ctx); err != nil {
			return err
		}
		if err := h.machine.connect(ctx); err != nil {
			return err
		}
	}
	if err := h.startSSH(ctx); err != nil {
		return err
	}
	if !h.fresh && !h.running(ctx, "/run/virtlogd.pid") {
		if _, err := h.machine.run(ctx, "virtlogd", "--daemon"); err != nil {
			return fmt.Errorf("starting virtlogd: %w", err)
		}
	}
	return h.startLibvirtd(ctx)
}

// startLibvirtd starts the host's libvirtd; it answers when this returns.
func (h *Host) startLibvirtd(ctx context.Context) error {
	log := h.machine.path("/var/log/libvirt/libvirtd.log")
	if h.fresh {
		if err := h.machine.startUnits(ctx); err != nil {
			return err
		}
	} else if !h.running(ctx, "/run/libvirtd.pid") {
		args := []string{"PATH=" + libvirtdPath + ":" + machinePath, "libvirtd", "--daemon"}
		if h.listens {
			args = append(args, "--listen")
		}
		if _, err := h.machine.run(ctx, "env", args...); err != nil {
			return fmt.Errorf("starting libvirtd (log: %s): %w", log, err)
		}
	}
	// The first answer takes a second or two: libvirt asks QEMU what it can do, and remembers.
	return waitFor(ctx, "libvirtd on "+h.Name+" to answer, see "+log, func(ctx context.Context) error {
		_, err := h.machine.run(ctx, "virsh", "--connect", "qemu:///system", "version")
		return err
	})
}

// stopService kills the process of a pid file, as a crash does.
func (h *Host) stopService(ctx context.Context, pidFile string) error {
	const script = `if pid=$(cat "$1" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null; then
	while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
fi
rm -f "$1"`
	_, err := h.machine.run(ctx, "bash", "-c", script, "stop", pidFile)
	return err
}

// running says whether the process of a pid file is there. A host that boots has no such files yet.
func (h *Host) running(ctx context.Context, pidFile string) bool {
	if _, err := os.Stat(h.machine.path(pidFile)); errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, err := h.machine.run(ctx, "bash", "-c", `kill -0 "$(cat "$1")"`, "running", pidFile)
	return err == nil
}

func (l *Lab) hostNames() []string {
	names := make([]string, 0, len(l.Hosts))
	for _, h := range l.Hosts {
		names = append(names, h.Name)
	}
	return names
}

// dialable waits until something accepts connections at an address.
func dialable(ctx context.Context, what, address string) error {
	return waitFor(ctx, what+" to accept connections at "+address, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func appendFile(path, content string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return writeFile(path, strings.TrimRight(string(data), "\n")+"\n"+content, 0o644)
}
