package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Hosts of a test's own, and what may go wrong with them. The lab's first hosts are shared by all tests, which run at
// the same time: whoever wants to break a host starts one for that.

const (
	firstOwnHost = 10
	lastOwnHost  = 240
)

// StartHost boots one more host, which the test has for itself, until the test ends. It takes two seconds. The host
// is also in l.Hosts, so that it is in ProviderConfig and found by its name.
func (l *Lab) StartHost(t testing.TB) *Host {
	t.Helper()
	return l.startHost(t, func(*Host) {})
}

// StartHostWithoutStreams is StartHost with an SSH server that forwards no stream to a socket, as hardened ones do:
// libvirt is reached by a program there, in sessions of which a connection may have ten. Relays of migrations, for
// which the server listens on a socket, still work.
func (l *Lab) StartHostWithoutStreams(t testing.TB) *Host {
	t.Helper()
	return l.startHost(t, func(h *Host) { h.withoutStreams = true })
}

// StartFreshHost starts a host of the test's own on which nothing was set up after the installation of libvirt: systemd
// runs it as the service of its package, QEMU runs as the distribution's user, polkit decides who may use libvirt, the
// network "default" is defined and off, and there is no storage pool. All of /etc is the host's own.
func (l *Lab) StartFreshHost(t testing.TB) *Host {
	t.Helper()
	return l.startHost(t, func(h *Host) { h.fresh, h.Unprivileged = true, true })
}

func (l *Lab) startHost(t testing.TB, prepare func(*Host)) *Host {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	h, err := l.claimHost()
	if err != nil {
		t.Fatal(err)
	}
	prepare(h)
	cleanup(t, "removing host "+h.Name, func(ctx context.Context) error { return l.removeHost(ctx, h) })
	l.Hosts = append(l.Hosts, h)
	keys, err := h.createKeys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.editKnownHosts(func(have string) string { return have + keys }); err != nil {
		t.Fatal(err)
	}
	// What QEMU can do is known here already: libvirt needn't spend a second and a half on asking it again.
	const capabilities = "/var/cache/libvirt/qemu/capabilities"
	known := os.DirFS(l.Hosts[0].Path(capabilities))
	if err := os.CopyFS(h.Path(capabilities), known); err != nil {
		t.Fatal(err)
	}
	if err := l.bringUp(ctx, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// claimHost picks a number that no machine has. The names of a test's hosts sort as it started them.
func (l *Lab) claimHost() (*Host, error) {
	before := ""
	if last := l.Hosts[len(l.Hosts)-1]; last.own {
		before = last.Name
	}
	for number := firstOwnHost; number <= lastOwnHost; number++ {
		h := l.newHost(number, false)
		h.own = true
		if h.Name <= before {
			continue
		}
		err := os.Mkdir(h.machine.dir, 0o755)
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("claiming a host: %w", err)
		}
	}
	return nil, errors.New("no number is free for another host")
}

func (l *Lab) removeHost(ctx context.Context, h *Host) error {
	if err := h.machine.stop(ctx); err != nil {
		return err
	}
	if err := h.machine.removeCgroups(ctx); err != nil {
		return err
	}
	shells.forget(h.SocketURI())
	for _, link := range []string{h.machine.hostLink(), h.machine.lanLink()} {
		if err := deleteLink(ctx, link); err != nil {
			return err
		}
	}
	err := l.editKnownHosts(func(have string) string {
		var rest strings.Builder
		for line := range strings.Lines(have) {
			if !strings.HasPrefix(line, h.Address+",") {
				rest.WriteString(line)
			}
		}
		return rest.String()
	})
	return errors.Join(err, os.RemoveAll(h.machine.dir))
}

// editKnownHosts replaces the file at once, so that whoever reads it meanwhile sees the old or the new one.
func (l *Lab) editKnownHosts(edit func(string) string) error {
	unlock, err := lockDir(filepath.Dir(l.KnownHostsFile()))
	if err != nil {
		return err
	}
	defer unlock()
	have, err := os.ReadFile(l.KnownHostsFile())
	if err != nil {
		return fmt.Errorf("editing known_hosts: %w", err)
	}
	temporary := l.KnownHostsFile() + ".new"
	if err := writeFile(temporary, edit(string(have)), 0o644); err != nil {
		return err
	}
	if err := os.Rename(temporary, l.KnownHostsFile()); err != nil {
		return fmt.Errorf("editing known_hosts: %w", err)
	}
	return nil
}

// Cut takes a host that StartHost made off the network until the returned function is called, or the test ends.
// Connections hang, as they do when a host dies.
func (l *Lab) Cut(t testing.TB, h *Host) (restore func()) {
	t.Helper()
	return fault(t, h, "cutting it off", h.Cut, h.Restore)
}

// KillLibvirtd kills the libvirtd of a host that StartHost made until the returned function is called, or the test
// ends. Guests keep running.
func (l *Lab) KillLibvirtd(t testing.TB, h *Host) (restart func()) {
	t.Helper()
	return fault(t, h, "killing libvirtd", h.KillLibvirtd, h.StartLibvirtd)
}

// StopSSH stops the SSH server of a host that StartHost made until the returned function is called, or the test ends.
// Connections are refused.
func (l *Lab) StopSSH(t testing.TB, h *Host) (start func()) {
	t.Helper()
	return fault(t, h, "stopping SSH", h.StopSSH, h.StartSSH)
}

// PowerOff pulls the plug of a host that StartHost made until the returned function is called, or the test ends.
func (l *Lab) PowerOff(t testing.TB, h *Host) (powerOn func()) {
	t.Helper()
	return fault(t, h, "powering off", h.PowerOff, h.PowerOn)
}

// fault does harm and makes sure that it is undone. Undoing may happen more than once.
func fault(t testing.TB, h *Host, what string, harm, heal func(context.Context) error) (undo func()) {
	t.Helper()
	if !h.own {
		t.Fatalf("host %s is shared with other tests: break one from StartHost", h.Name)
	}
	cleanup(t, h.Name+": undoing: "+what, heal)
	ctx, cancel := stepContext(t)
	defer cancel()
	if err := harm(ctx); err != nil {
		t.Fatalf("%s: %s: %v", h.Name, what, err)
	}
	return func() {
		t.Helper()
		ctx, cancel := stepContext(t)
		defer cancel()
		if err := heal(ctx); err != nil {
			t.Fatalf("%s: undoing: %s: %v", h.Name, what, err)
		}
	}
}
