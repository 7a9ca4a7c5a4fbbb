package migration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// overSSH reaches a host's sockets as the provider does.
func (b *bench) overSSH(t *testing.T, h *lab.Host) func() (Tunnel, error) {
	t.Helper()
	return overSSH(b.lab, h)
}

func overSSH(l *lab.Lab, h *lab.Host) func() (Tunnel, error) {
	return func() (Tunnel, error) {
		return ssh.NewClient(ssh.Config{
			Host: h.Address, User: "root", PrivateKeyFile: l.PrivateKeyFile(),
			KnownHostsFile: l.KnownHostsFile(), ConfigFile: "none", Agent: new(bool),
		})
	}
}

// wall lets no migration begin directly between a host of the test's own and the others. How is iptables' word for what
// happens to those that try: DROP or REJECT.
func wall(t *testing.T, l *lab.Lab, h *lab.Host, how string) {
	t.Helper()
	for _, chain := range []string{"INPUT", "OUTPUT"} {
		l.Run(t, h.Name, "iptables", "-I", chain, "-p", "tcp", "--syn", "--dport", "49152:49215", "-j", how)
	}
}

// noSockets fails the test when a relay left something behind on its hosts.
func (b *bench) noSockets(t *testing.T) {
	t.Helper()
	for _, name := range []string{b.source.Name(), b.target.Name()} {
		// A host whose connection was cut takes its processes down in its own time.
		lab.Await(t, "sockets to be gone from "+name, func() bool {
			entries, err := os.ReadDir(b.lab.Host(name).Path(socketDir))
			return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
				return strings.HasSuffix(e.Name(), b.machine.Name) || strings.HasSuffix(e.Name(), b.machine.UUID)
			})
		})
	}
}

// A migration between a host whose QEMU may do everything and one whose QEMU has a user of its own, in both directions,
// with a firewall in between, memory compressed or through several connections.
func TestLab_relayPassesAFirewall(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	wall(t, l, own, "DROP")
	b := newBenchOn(t, l, own, l.Host("kvm3"), "")
	b.tunnels = b.overSSH
	last := 0
	for _, o := range []Options{
		{Compression: CompressionXBZRLE}, {Transport: TransportSSHRelay, ParallelConnections: new(4)},
	} {
		last = max(last, b.counter(b.source.Name()))
		start := time.Now()
		state, err := b.run(t.Context(), t, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s to %s took %v", b.source.Name(), b.target.Name(), time.Since(start))
		if state.Transport != TransportSSHRelay {
			t.Errorf("state %+v", state)
		}
		job := l.Virsh(t, b.target.Name(), "domjobinfo", b.machine.Name, "--completed")
		if compressed := strings.Contains(job, "Compression cache:"); compressed != (o.Compression != "") {
			t.Errorf("compression %q, and libvirt tells of it: %t", o.Compression, compressed)
		}
		b.runsOnlyOn(t, b.target, b.source)
		if now := b.counter(b.target.Name()); now <= last {
			t.Errorf("the guest's counter went from %d to %d: it was restarted", last, now)
		}
		b.noSockets(t)
		b.source, b.target = b.target, b.source
	}
}

// Where the hosts reach each other auto is direct, and where they refuse each other it is direct only after nothing
// was found to answer.
func TestLab_autoPicksATransport(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	b := newBenchOn(t, l, own, l.Host("kvm2"), "")
	b.tunnels = b.overSSH
	state, err := b.run(t.Context(), t, Options{}, nil)
	if err != nil || state.Transport != TransportDirect {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	b.source, b.target = b.target, b.source

	wall(t, l, own, "REJECT")
	state, err = b.run(t.Context(), t, Options{}, nil)
	if err != nil || state.Transport != TransportSSHRelay {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	b.noSockets(t)
	b.source, b.target = b.target, b.source

	l.Run(t, own.Name, "ip", "route", "add", "blackhole", l.Host("kvm2").Address)
	// Told to go directly, it says that it can't.
	state, err = b.run(t.Context(), t, Options{Transport: TransportDirect}, nil)
	if failed, ok := errors.AsType[*FailedError](err); !ok || state.FailurePlane != PlaneControl {
		t.Errorf("state %+v: %v", state, failed)
	}
	b.runsOnlyOn(t, b.source, b.target)
	state, err = b.run(t.Context(), t, Options{}, nil)
	if err != nil || state.Transport != TransportSSHRelay {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	b.noSockets(t)
}

func TestLab_relayIsAborted(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dirty=32 data")
	b.tunnels = b.overSSH
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	state, err := b.run(ctx, t, Options{Transport: TransportSSHRelay, Bandwidth: new(uint64(slow))}, func(s State) {
		if s.Statistics.Data.Processed > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || state.AbortStatus != AbortSucceeded {
		t.Errorf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)
	b.noSockets(t)
}

func TestLab_relayTakesSSH(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	o := Options{Transport: TransportSSHRelay}
	if blockers := o.TransportBlockers(true, false); len(Blocking(blockers)) != 1 {
		t.Errorf("blockers %+v", blockers)
	}
	if blockers := append(o.TransportBlockers(true, true), Options{}.TransportBlockers(false, false)...); blockers != nil {
		t.Errorf("blockers %+v", blockers)
	}
	state, err := b.run(t.Context(), t, o, nil)
	if !errors.Is(err, errNoTunnel) || state.FailurePlane != PlaneControl {
		t.Errorf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)
}

func TestSocketPath_fitsIntoASocketsAddress(t *testing.T) {
	t.Parallel()
	m := VM{Name: "web", UUID: "5f1c2b6e-0c7b-4a5d-9b1e-000000000001"}
	if got, want := socketPath(socketPrefix, m), filepath.Join(socketDir, "vf.tunnelmigrate.dest.web"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	m.Name = strings.Repeat("x", 200)
	if got := socketPath(socketPrefix, m); !strings.HasSuffix(got, m.UUID) || len(got) > maxSocketPath {
		t.Errorf("got %q", got)
	}
	if got, want := (&relay{path: "/run/it's 100%"}).uri(), "unix:///run/it%27s%20100%25"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
