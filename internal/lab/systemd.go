package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A fresh host runs systemd as its first process, and libvirt as the service of its package.

//go:embed systemd.sh
var systemdScript string

// units are systemd's own, and where the lab and an administrator put theirs.
const (
	units    = "/lib/systemd/system"
	ownUnits = "/etc/systemd/system"
)

// enabled is what libvirt's package enables, in the targets that want it.
var enabled = map[string][]string{
	"multi-user.target.wants": {"libvirtd.service"},
	"sockets.target.wants": {
		"libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket", "virtlockd.socket", "virtlockd-admin.socket",
		"virtlogd.socket", "virtlogd-admin.socket",
	},
	"basic.target.wants": {"machine-ready.service"},
}

// kept is what a host needs of what systemd starts otherwise. The rest would change this computer: its devices, its
// kernel's settings, and its files in /tmp.
var kept = []string{"dbus.service", "dbus.socket", "systemd-journald.service", "systemd-journald.socket"}

// machineReady is the last that systemd starts before the machine has a network.
const machineReady = `[Unit]
Description=Tells the lab that this machine has booted
DefaultDependencies=no
After=sockets.target
Before=basic.target

[Service]
Type=oneshot
ExecStart=/bin/touch /run/machine-ready
`

// prepareSystemd gives a machine, whose other files are there, those of systemd: an /etc of its own, and what is
// started. What the machine doesn't have in /etc yet is as on this computer.
func (m *machine) prepareSystemd(ctx context.Context) error {
	args := []string{"-a", "--target-directory", m.path("/etc")}
	shared, err := os.ReadDir("/etc")
	if err != nil {
		return fmt.Errorf("preparing systemd on %s: %w", m.name, err)
	}
	for _, entry := range shared {
		_, err := os.Lstat(m.path("/etc/" + entry.Name()))
		if errors.Is(err, os.ErrNotExist) && entry.Name() != "systemd" && entry.Name() != "fstab" {
			args = append(args, "/etc/"+entry.Name())
		}
	}
	if err := run(ctx, "cp", args...); err != nil {
		return err
	}
	if err := m.chooseUnits(); err != nil {
		return err
	}
	fstab := ""
	for path, mode := range map[string]os.FileMode{
		"/etc": 0o755, "/var/lib/systemd": 0o755, "/var/tmp": 0o777 | os.ModeSticky,
	} {
		if err := errors.Join(os.MkdirAll(m.path(path), 0o755), os.Chmod(m.path(path), mode)); err != nil {
			return fmt.Errorf("preparing systemd on %s: %w", m.name, err)
		}
		fstab += m.bind(path)
	}
	return errors.Join(appendFile(filepath.Join(m.dir, "fstab"), fstab),
		writeFile(m.systemdScript(), systemdScript, 0o644))
}

// chooseUnits says what systemd starts.
func (m *machine) chooseUnits() error {
	own := m.path(ownUnits)
	for file, content := range map[string]string{
		filepath.Join(own, "machine-ready.service"): machineReady,
		// What this computer's kernel says isn't the machine's.
		m.path("/etc/systemd/journald.conf.d/lab.conf"): "[Journal]\nReadKMsg=no\nAudit=no\n",
	} {
		if err := writeFile(file, content, 0o644); err != nil {
			return err
		}
	}
	for _, target := range []string{"local-fs", "multi-user", "sockets", "sysinit", "timers"} {
		wanted, err := os.ReadDir(filepath.Join(units, target+".target.wants"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("preparing systemd on %s: %w", m.name, err)
		}
		for _, unit := range wanted {
			mask := filepath.Join(own, unit.Name())
			if _, err := os.Lstat(mask); err == nil || slices.Contains(kept, unit.Name()) {
				continue
			}
			if err := os.Symlink("/dev/null", mask); err != nil {
				return fmt.Errorf("preparing systemd on %s: %w", m.name, err)
			}
		}
	}
	for target, wanted := range enabled {
		if err := os.MkdirAll(filepath.Join(own, target), 0o755); err != nil {
			return fmt.Errorf("preparing systemd on %s: %w", m.name, err)
		}
		for _, unit := range wanted {
			from := units
			if unit == "machine-ready.service" {
				from = ownUnits
			}
			if err := os.Symlink(filepath.Join(from, unit), filepath.Join(own, target, unit)); err != nil {
				return fmt.Errorf("preparing systemd on %s: %w", m.name, err)
			}
		}
	}
	return nil
}

// startUnits starts what is enabled, once the machine has its network.
func (m *machine) startUnits(ctx context.Context) error {
	if _, err := m.run(ctx, "systemctl", "start", "multi-user.target"); err != nil {
		return fmt.Errorf("starting what systemd has enabled (log: journalctl -D %s): %w", m.path("/run/log/journal"), err)
	}
	return nil
}

func (m *machine) systemdScript() string { return filepath.Join(m.dir, "systemd.sh") }

// cgroup is the machine's, if it runs systemd. The number of the lab is in its name, as in those of its devices.
func (m *machine) cgroup() string { return m.hostLink() }

// removeCgroup removes the cgroups that systemd made. A kernel that kills a machine leaves them.
func (m *machine) removeCgroup(ctx context.Context) error {
	if _, err := os.Stat(m.systemdScript()); err != nil {
		return nil //nolint:nilerr // It has none.
	}
	// Where this computer has the hierarchy is of no interest: it is the same one wherever it is mounted.
	const script = `mount -t cgroup2 none "$0" && cd "$0" || exit
[ ! -e "$1" ] || find "$1" -depth -type d -exec rmdir {} +`
	return waitFor(ctx, "the processes of "+m.name+" to leave their cgroups", func(ctx context.Context) error {
		return run(ctx, "unshare", "--mount", "sh", "-c", script, m.path("/run"), m.cgroup())
	})
}
