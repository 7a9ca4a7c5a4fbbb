package migration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func TestPeerBlockers(t *testing.T) {
	t.Parallel()
	peers := Options{PeerToPeer: new(true)}
	relayed := Options{PeerToPeer: new(true), Transport: TransportSSHRelay}
	tests := map[string]struct {
		options Options
		uri     string
		blocked bool
	}{
		"managed from here": {Options{}, "", false},
		"turned off":        {Options{PeerToPeer: new(false), Transport: TransportSSHRelay}, "", false},
		"not configured":    {peers, "", true},
		"known":             {peers, "qemu+tls://kvm2/system", false},
		"relayed":           {relayed, "qemu+tls://kvm2/system", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.options.PeerBlockers("kvm2", tt.uri)
			if len(Blocking(got)) != len(got) || (len(got) == 1) != tt.blocked {
				t.Errorf("got %v, want blocked: %v", got, tt.blocked)
			}
		})
	}
}

// A run that waits for the source to answer, which has lost it, ends the wait as soon as that is given up.
func TestAwaitPeerToPeer_isAbandoned(t *testing.T) {
	t.Parallel()
	silent := silentHost(t)
	r := newRun(Request{Source: silent, Target: silent})
	giveUp, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		r.awaitPeerToPeer(t.Context(), giveUp)
	}()
	close(giveUp)
	select {
	case <-over:
	case <-time.After(silentTime / 2):
		t.Error("it waits although the wait was given up")
	}
}

// peers starts two hosts whose libvirt listens for each other, and returns how they reach each other's.
func peers(t *testing.T, l *lab.Lab) (source, target *lab.Host, uri string) {
	t.Helper()
	source, target = l.StartHost(t), l.StartHost(t)
	a := lab.NewAuthority(t)
	l.Listen(t, source, a)
	l.Listen(t, target, a)
	return source, target, "qemu+tls://%s/system?pkipath=" + a.Client(t)
}

// The source's libvirt moves a VM: the migration can be aborted as one that is managed from here, continues without the
// run that ordered it, uses every transport, and is resumed if it breaks in post-copy. The guest is the same at the
// end.
func TestLab_peers(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target, uri := peers(t, l)
	b := newBenchOn(t, l, source, target, "dirty=32 data")
	b.peers = uri
	b.peersAreAborted(t)
	b.peersContinueWithoutTheConnection(t)
	b.peersMove(t)
	b.peersResumePostCopy(t)
}

// peersMove moves it over whatever the hosts' libvirt trust.
func (b *bench) peersMove(t *testing.T) {
	t.Helper()
	tls := b.peers
	defer func() { b.peers = tls }()
	for _, uri := range []string{tls, "qemu+tcp://%s/system", "qemu+ssh://root@%s/system?command=" + sshOf(t, b.lab)} {
		b.peers = uri
		last := b.counter(b.source.Name())
		state, err := b.run(t.Context(), t, Options{PeerToPeer: new(true)}, nil)
		if err != nil || state.Transport != TransportDirect || state.Statistics.Downtime == 0 {
			t.Fatalf("state %+v: %v", state, err)
		}
		b.runsOnlyOn(t, b.target, b.source)
		if now := b.counter(b.target.Name()); now <= last {
			t.Errorf("the guest's counter went from %d to %d: it was restarted", last, now)
		}
		b.source, b.target = b.target, b.source
	}
}

// sshOf is an ssh for a host's libvirt that has a key and knows the other hosts, as its root's own would.
func sshOf(t *testing.T, l *lab.Lab) string {
	t.Helper()
	command := path.Join(t.TempDir(), "ssh")
	script := fmt.Sprintf("#!/bin/sh\nexec ssh -F %s \"$@\"\n", l.SSHConfigFile())
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // It is to be run.
		t.Fatal(err)
	}
	return command
}

// What only the source has is copied along.
func TestLab_peersCopyDisks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target, uri := peers(t, l)
	file := image(t, l, source, path.Join(directory(t, source, target), "disk"), "qcow2", "16M")
	b := onFiles(t, l, source, target, "", "qcow2", file)
	b.peers = uri
	written := b.scribble(t, b.source, "/dev/vda")
	state, err := b.run(t.Context(), t, Options{
		PeerToPeer: new(true), CopyStorage: CopyFull, KeepSourceDisks: new(false),
	}, nil)
	if err != nil || state.Method != MethodBlock {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	if read := b.inGuest(t, b.target, sum("/dev/vda")); read != written {
		t.Errorf("wrote %s, read %s", written, read)
	}
	if has(t, source, file) {
		t.Error("the source has it still")
	}
}

// peersAreAborted expects that what ends a migration that is managed from here ends this one too.
func (b *bench) peersAreAborted(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{PeerToPeer: new(true), Bandwidth: new(uint64(slow))}
	state, err := b.run(ctx, t, o, func(s State) {
		if s.Statistics.Data.Processed > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || state.AbortStatus != AbortSucceeded || state.FailurePlane != PlaneData {
		t.Errorf("cancelled: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)

	o.CompletionTimeoutPerGiB = new(3 * time.Second)
	state, err = b.run(t.Context(), t, o, nil)
	if !errors.Is(err, ErrLate) || state.AbortStatus != AbortSucceeded {
		t.Errorf("too late: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)

	// A libvirt that is not reachable is told before anything is copied.
	reachable := b.peers
	defer func() { b.peers = reachable }()
	b.peers = "qemu+tcp://%s:1/system"
	state, err = b.run(t.Context(), t, o, nil)
	if !errors.Is(err, ErrPeerToPeerFailed) || state.FailurePlane != PlaneControl {
		t.Errorf("not reached: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)
}

// cuttable gives the bench's source connections that are all cut at once, and made again when they are needed.
func (b *bench) cuttable(t *testing.T) (cut func()) {
	t.Helper()
	host := b.lab.Host(b.source.Name())
	var mu sync.Mutex
	var streams []net.Conn
	source, err := libvirt.Open(libvirt.Config{
		Name: host.Name, URI: host.URI(),
		Dial: func(ctx context.Context, socket string) (net.Conn, error) {
			var d net.Dialer
			stream, err := d.DialContext(ctx, "unix", host.Path(socket))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				streams = append(streams, stream)
			}
			return stream, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	b.source = source
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for _, stream := range streams {
			_ = stream.Close() // Some are closed already.
		}
		streams = nil
	}
}

// peersContinueWithoutTheConnection cuts the run that ordered the migration off from the source while memory is copied.
// The migration continues, is monitored to its end, and can still be aborted.
func (b *bench) peersContinueWithoutTheConnection(t *testing.T) {
	t.Helper()
	cut := b.cuttable(t)
	before := b.counter(b.source.Name())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost := time.Duration(0)
	state, err := b.run(ctx, t, Options{PeerToPeer: new(true), Bandwidth: new(uint64(slow))}, func(s State) {
		elapsed := s.Statistics.Elapsed
		switch {
		case s.Statistics.Data.Processed > 0 && lost == 0:
			lost = elapsed
			cut()
		case lost > 0 && elapsed > lost+time.Second:
			cancel()
		}
	})
	if !errors.Is(err, libvirt.ErrUnreachable) || state.AbortStatus != AbortSucceeded {
		t.Errorf("aborted: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)

	state, err = b.during(t, Options{PeerToPeer: new(true)}, func() {
		cut()
		b.lab.Virsh(t, b.source.Name(), "migrate-setspeed", b.machine.Name, "8192")
	})
	if err != nil || state.AbortRequested {
		t.Errorf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	if now := b.counter(b.target.Name()); now <= before {
		t.Errorf("the guest's counter went from %d to %d: it was restarted", before, now)
	}
	b.source, b.target = b.target, b.source
}

// peersResumePostCopy expects that what broke in post-copy is resumed as it was begun.
func (b *bench) peersResumePostCopy(t *testing.T) {
	t.Helper()
	before := b.counter(b.source.Name())
	state, err := b.postCopy(t, Options{PeerToPeer: new(true)}, func() { b.cutLink(t) })
	if err != nil || !state.Recovered || state.Mode != PostCopy || state.Transport != TransportDirect {
		t.Errorf("state %+v: %v", state, err)
	}
	b.switchedOver(t)
	lab.Await(t, "the guest to keep counting", func() bool { return b.counter(b.target.Name()) > before })
}

// What a host may still be at is asked for before anything is tidied up on the other: also after a call that didn't end
// when it was aborted, and so was given up by itself. A host that doesn't answer may be at it.
func TestContinuesUnmonitored(t *testing.T) {
	t.Parallel()
	silent := silentHost(t)
	for name, tt := range map[string]struct {
		options     Options
		failure     error
		waitGivenUp bool
		want        bool
	}{
		"it ended":              {Options{}, libvirt.ErrAborted, false, false},
		"its wait was given up": {Options{}, libvirt.ErrAborted, true, true},
		"managed by itself":     {Options{PeerToPeer: new(true)}, libvirt.ErrUnreachable, false, true},
		"it didn't end in time": {Options{}, fmt.Errorf("moving it: %w", &libvirt.Error{
			Kind: libvirt.ErrUnreachable, Err: libvirt.ErrAbandoned,
		}), false, true},
	} {
		r := newRun(Request{Source: silent, Target: silent, Options: tt.options})
		r.waitGivenUp = tt.waitGivenUp
		if got := r.continuesUnmonitored(t.Context(), tt.failure); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
