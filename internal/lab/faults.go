package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// What goes wrong with hosts, on demand. None of these must be done to a host that other tests use at the same time.

// Cut takes the host off the network: nothing is refused, nothing answers, connections hang.
func (h *Host) Cut(ctx context.Context) error {
	if err := run(ctx, "ip", "link", "set", h.machine.hostLink(), "down"); err != nil {
		return fmt.Errorf("cutting %s off: %w", h.Name, err)
	}
	return nil
}

// Restore puts a host back on the network that was cut off. It answers when this returns.
func (h *Host) Restore(ctx context.Context) error {
	if err := run(ctx, "ip", "link", "set", h.machine.hostLink(), "up"); err != nil {
		return fmt.Errorf("putting %s back on the network: %w", h.Name, err)
	}
	return dialable(ctx, "the SSH server of "+h.Name, h.Address+":22")
}

// PowerOff pulls the host's plug: guests, daemons and connections are gone, definitions and disks stay.
func (h *Host) PowerOff(ctx context.Context) error { return h.machine.stop(ctx) }

// PowerOn boots a host that was powered off. It answers when this returns; guests with autostart run.
func (h *Host) PowerOn(ctx context.Context) error { return h.start(ctx) }

// KillLibvirtd kills the host's libvirtd. Guests keep running.
func (h *Host) KillLibvirtd(ctx context.Context) error {
	return h.stopService(ctx, "/run/libvirtd.pid")
}

// StartLibvirtd starts a libvirtd that was killed. It answers when this returns.
func (h *Host) StartLibvirtd(ctx context.Context) error { return h.startLibvirtd(ctx) }

// FreezeLibvirtd has the host's libvirtd do nothing: connections to it hang. Without a libvirtd that is ErrNoProcess.
func (h *Host) FreezeLibvirtd(ctx context.Context) error {
	return h.signal(ctx, "/run/libvirtd.pid", "STOP")
}

// ThawLibvirtd lets a libvirtd that was frozen continue, if there is one.
func (h *Host) ThawLibvirtd(ctx context.Context) error {
	return unlessGone(h.signal(ctx, "/run/libvirtd.pid", "CONT"))
}

// ErrNoProcess says that a fault hits nothing: a test that doesn't notice proves nothing.
var ErrNoProcess = errors.New("there is no such process")

// KillQEMU kills the process of a domain, FreezeQEMU has it do nothing, and ThawQEMU lets it continue, if it is there.
// Without it, the other two return ErrNoProcess.
func (h *Host) KillQEMU(ctx context.Context, domain string) error {
	return h.signal(ctx, QEMUPIDFile(domain), "KILL")
}

// FreezeQEMU is described at KillQEMU.
func (h *Host) FreezeQEMU(ctx context.Context, domain string) error {
	return h.signal(ctx, QEMUPIDFile(domain), "STOP")
}

// ThawQEMU is described at KillQEMU.
func (h *Host) ThawQEMU(ctx context.Context, domain string) error {
	return unlessGone(h.signal(ctx, QEMUPIDFile(domain), "CONT"))
}

// QEMUPIDFile is the file, on its host, with the process of a domain that is active.
func QEMUPIDFile(domain string) string { return "/run/libvirt/qemu/" + domain + ".pid" }

// signal sends a signal to the process of a pid file. It returns ErrNoProcess if there is none, or only one that has
// ended.
func (h *Host) signal(ctx context.Context, pidFile, name string) error {
	const script = `pid=$(cat "$1" 2>/dev/null) || { echo none; exit; }
[ "$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat" 2>/dev/null)" != Z ] || { echo none; exit; }
kill -s "$2" "$pid" 2>/dev/null || { ! kill -0 "$pid" 2>/dev/null && echo none; }`
	out, err := h.machine.run(ctx, "bash", "-c", script, "signal", pidFile, name)
	if err == nil && strings.TrimSpace(out) != "" {
		err = fmt.Errorf("sending %s to the process of %s on %s: %w", name, pidFile, h.Name, ErrNoProcess)
	}
	return err
}

// unlessGone returns the error unless it is ErrNoProcess.
func unlessGone(err error) error {
	if errors.Is(err, ErrNoProcess) {
		return nil
	}
	return err
}

// FillDisk leaves no room in a directory: the disk that it is on is full. What it has is hidden until FreeDisk.
func (h *Host) FillDisk(ctx context.Context, dir string) error {
	const script = `mount -t tmpfs -o size=4k none "$1" && { ! dd if=/dev/zero of="$1/full" bs=4k count=2 2>/dev/null; }`
	_, err := h.machine.run(ctx, "bash", "-c", script, "fill", dir)
	return err
}

// FreeDisk undoes FillDisk.
func (h *Host) FreeDisk(ctx context.Context, dir string) error {
	_, err := h.machine.run(ctx, "bash", "-c", `! mountpoint -q "$1" || umount -l "$1"`, "free", dir)
	return err
}

// StopSSH kills the host's SSH server with all its connections: new ones are refused.
func (h *Host) StopSSH(ctx context.Context) error {
	if err := h.stopService(ctx, "/run/sshd.pid"); err != nil {
		return err
	}
	// The host has its own process namespace, so its own sshd processes are all that this finds. There may be none.
	_, err := h.machine.run(ctx, "bash", "-c", "pkill -KILL -x sshd || true")
	return err
}

// StartSSH starts an SSH server that was stopped.
func (h *Host) StartSSH(ctx context.Context) error { return h.startSSH(ctx) }

// Command prepares a command on the host. Ending ctx kills it.
func (h *Host) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	return h.machine.command(ctx, name, args...)
}

// Run runs a command on the host and returns what it printed.
func (h *Host) Run(ctx context.Context, name string, args ...string) (string, error) {
	return h.machine.run(ctx, name, args...)
}

// RefreshPool has the host's pool "default" look at what its directory contains. libvirt refuses that while a
// volume is created there, which other tests do: it is asked again until ctx ends.
func (h *Host) RefreshPool(ctx context.Context) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := h.Virsh(ctx, "pool-refresh", "default")
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

// ConsoleLog is the file, on its host, to which a domain of the lab writes its serial console.
func ConsoleLog(domain string) string { return "/var/log/libvirt/qemu/" + domain + ".console" }
