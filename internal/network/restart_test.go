package network

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestUpdate_lockIsLost: a network is restarted if the lock is still held when it is stopped. Whatever becomes of the
// lock then, the network isn't left stopped.
func TestUpdate_lockIsLost(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	const name = "lock-is-lost"
	lost := errors.New("another run has the lock")
	// locked returns a lock. Before each change on the host, guard says whether it is held; lose ends its context.
	locked := func(guard func(lose func()) error) LockFunc {
		return func(ctx context.Context, _, _, _ string) (context.Context, func(), error) {
			ctx, end := context.WithCancelCause(ctx)
			lose := func() { end(lost) }
			return libvirt.Guarded(ctx, func(context.Context) error { return guard(lose) }), lose, nil
		}
	}
	put := func(bridge string, lock LockFunc) error {
		return Update(t.Context(), lock, h, name, Wanted{Spec: Spec{Bridge: &bridge}, Active: true},
			func(context.Context) (bool, error) { return true, nil })
	}
	active := func() bool {
		is, err := h.Network(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return is.Active
	}
	held := locked(func(func()) error { return nil })
	if err := put("virbr91", held); err != nil {
		t.Fatal(err)
	}

	bridge := 91
	// An update has two changes with the lock: it defines the network, and stops it.
	for when, test := range map[string]struct {
		guard func(lose func(), change int) error
		err   error
		asked int
	}{
		"before the definition": {func(lose func(), _ int) error { lose(); return lost }, lost, 1},
		"before the stop": {func(lose func(), change int) error {
			if change == 2 {
				lose()
				return lost
			}
			return nil
		}, lost, 2},
		"while it is stopped": {func(lose func(), change int) error {
			if change == 2 {
				lose()
			}
			return nil
		}, nil, 2},
		"after the stop": {func(lose func(), _ int) error {
			if !active() {
				lose()
				return lost
			}
			return nil
		}, nil, 2},
	} {
		asked := 0
		bridge++
		err := put(fmt.Sprintf("virbr%d", bridge), locked(func(lose func()) error {
			asked++
			return test.guard(lose, asked)
		}))
		if !errors.Is(err, test.err) || asked != test.asked {
			t.Errorf("lost %s: %v, asked %d times; want %v, %d", when, err, asked, test.err, test.asked)
		}
		if !active() {
			t.Fatalf("lost %s: the network is down", when)
		}
	}
	// While the VMs that a restart cuts off are looked for, it can be cancelled.
	looked := func() int { return h.Calls()["virConnectListAllDomains"] }
	before := looked()
	err = put("virbr98", func(ctx context.Context, _, _, _ string) (context.Context, func(), error) {
		ctx, end := context.WithCancelCause(ctx)
		return endsWhen{Context: ctx, over: func() bool { return looked() > before }, end: func() { end(lost) }},
			func() { end(nil) }, nil
	})
	is, readErr := Read(t.Context(), h, name)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if !errors.Is(err, lost) || is.Live == nil || *is.Live.Bridge == "virbr98" {
		t.Errorf("cancelled before the stop: %v, the network is now %+v", err, is.Live)
	}
	if err := Delete(t.Context(), held, h, name); err != nil {
		t.Error(err)
	}

	// A new network is defined, and started. If the lock is lost in between, the network stays inactive, and the next
	// update starts it.
	changes := 0
	if err := put("virbr99", locked(func(lose func()) error {
		if changes++; changes > 1 {
			lose()
			return lost
		}
		return nil
	})); !errors.Is(err, lost) || active() {
		t.Errorf("lost before the start: %v", err)
	}
	if err := put("virbr99", held); err != nil || !active() {
		t.Errorf("the next update: %v", err)
	}
	if err := Delete(t.Context(), held, h, name); err != nil {
		t.Error(err)
	}
}

// endsWhen is a context that is cancelled as soon as something is over: it looks whenever it is asked.
type endsWhen struct {
	context.Context
	over func() bool
	end  func()
}

func (c endsWhen) Err() error {
	if c.over() {
		c.end()
	}
	return c.Context.Err()
}
