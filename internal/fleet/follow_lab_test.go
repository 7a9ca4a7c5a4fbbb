package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Who waits for a machine's lock while the machine changes hosts takes the lock
// where it is then, and does there what was to be done: the lock on the old host
// keeps nobody from the machine any more.
func TestLab_lockFollowsTheMachine(t *testing.T) {
	t.Parallel()

	const order = "4711"

	tests := map[string]func(context.Context, *Fleet, *VM) error{
		"evicting": func(ctx context.Context, f *Fleet, vm *VM) error {
			return f.onMachine(ctx, vm.UUID, lastOf(vm), "evicting", func(ctx context.Context, now *VM) error {
				for _, h := range f.hosts {
					_, err := h.conn.Secret(ctx, lockPrefix+vm.UUID)
					if (err == nil) != (h.name == now.Host) || now.Host == vm.Host {
						t.Errorf("it is on %s, and the lock on host %s: %v", now.Host, h.name, err)
					}
				}

				return nil
			})
		},
		"withdrawing": func(ctx context.Context, f *Fleet, vm *VM) error {
			record, err := f.WithdrawMigration(ctx, vm.UUID, lastOf(vm), order)
			if record == nil {
				t.Error("it had no record")
			}

			return err
		},
	}

	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			alice, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
			d := guest(l, lab.Name(t), "")
			d.Metadata.RunStrategy, d.Metadata.Host = "Manual", "kvm1"
			vm := create(t, alice, l, d)

			move := MoveOrder{UUID: vm.UUID, Last: lastOf(vm), ID: order, Target: "kvm1"}
			if name == "withdrawing" {
				pinned := vm.Metadata
				pinned.Host = ""

				if _, err := alice.writeMetadata(t.Context(), vm, pinned); err != nil {
					t.Fatal(err)
				}

				move.Target = "kvm2"

				var err error
				if vm, _, err = alice.Migrate(t.Context(), move); err != nil {
					t.Fatal(err)
				}
			}

			from, to := alice.host(vm.Host), alice.host(map[string]string{"kvm1": "kvm2", "kvm2": "kvm1"}[vm.Host])

			_, unlock, err := alice.lockOn(t.Context(), from, vm.UUID, "a test")
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()

			over := make(chan error, 1)
			before := defined(bob, from.name)

			go func() { over <- do(t.Context(), bob, vm) }()

			waiting, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()

			for defined(bob, from.name) == before { // Until it knocks.
				if err := pause(waiting, 20*time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}

			if err := from.conn.UndefineDomain(t.Context(), vm.UUID); err != nil {
				t.Fatal(err)
			}

			if _, err := to.conn.DefineDomain(t.Context(), vm.entry.PersistentXML); err != nil {
				t.Fatal(err)
			}

			unlock()

			if err := <-over; err != nil {
				t.Fatal(err)
			}

			now, err := bob.findNow(t.Context(), vm.UUID, LastKnown{})
			if err != nil || now.host.name != to.name || now.Metadata.Migration(order) != nil {
				t.Errorf("%+v, %v", now, err)
			}

			for _, h := range []*host{from, to} {
				if _, err := h.conn.Secret(t.Context(), lockPrefix+vm.UUID); !isNotFound(err) {
					t.Errorf("host %s: a lock is left: %v", h.name, err)
				}
			}
		})
	}
}

// defined is how often a fleet has tried to define a secret on the host.
func defined(f *Fleet, host string) int { return f.Calls()[host]["virSecretDefineXML"] }

// A lock whose host was silent when it was to be given back is given back once
// the host answers, so that nobody has to wait until it counts as left behind.
func TestLab_lockIsGivenBackLater(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	own := l.StartHost(t)
	f := ownFleet(t, "alice", own)
	h := f.host(own.Name)

	_, unlock, err := f.lockOn(t.Context(), h, "a-test", "a test")
	if err != nil {
		t.Fatal(err)
	}

	restart := l.KillLibvirtd(t, own)

	unlock()
	restart()

	ctx, cancel := context.WithTimeout(t.Context(), finishTimeout)
	defer cancel()

	for {
		if _, err := h.conn.Secret(ctx, lockPrefix+"a-test"); isNotFound(err) {
			return
		}

		if err := pause(ctx, 200*time.Millisecond); err != nil {
			t.Fatal("the lock is left")
		}
	}
}
