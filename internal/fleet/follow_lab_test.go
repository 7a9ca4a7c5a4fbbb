package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Who waits for a VM's lock while the VM changes hosts takes the lock where it is then, and does there what was to be
// done: the lock on the old host keeps no run from the VM any more.
func TestLab_lockFollowsTheVM(t *testing.T) {
	t.Parallel()

	const order = "4711"

	tests := map[string]func(context.Context, *Fleet, *inventory.VM) error{
		"evicting": func(ctx context.Context, f *Fleet, vm *inventory.VM) error {
			return f.WithVMLocked(ctx, vm.UUID, lastOf(vm), "evicting", func(ctx context.Context, now *inventory.VM) error {
				for _, h := range f.Configured {
					_, err := h.Conn.OwnSecret(ctx, lease.UsagePrefix+vm.UUID)
					if (err == nil) != (h.Name == now.Host) || now.Host == vm.Host {
						t.Errorf("it is on %s, and the lock on host %s: %v", now.Host, h.Name, err)
					}
				}

				return nil
			})
		},
		"withdrawing": func(ctx context.Context, f *Fleet, vm *inventory.VM) error {
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

			move := move.Order{UUID: vm.UUID, Last: lastOf(vm), ID: order, Target: "kvm1"}
			if name == "withdrawing" {
				pinned := vm.Metadata
				pinned.Host = ""

				if _, err := records.WriteMetadata(t.Context(), vm, pinned); err != nil {
					t.Fatal(err)
				}

				move.Target = "kvm2"

				var err error
				if vm, _, err = alice.MoveOnce(t.Context(), move); err != nil {
					t.Fatal(err)
				}
			}

			from, to := alice.Host(vm.Host), alice.Host(map[string]string{"kvm1": "kvm2", "kvm2": "kvm1"}[vm.Host])

			_, unlock, err := alice.Lock(t.Context(), from, vm.UUID, "a test")
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()

			over := make(chan error, 1)
			before := defined(bob, from.Name)

			go func() { over <- do(t.Context(), bob, vm) }()

			waiting, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()

			for defined(bob, from.Name) == before { // Until it knocks.
				if err := admission.Pause(waiting, 20*time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}

			if err := from.Conn.UndefineDomain(t.Context(), vm.UUID); err != nil {
				t.Fatal(err)
			}

			if _, err := to.Conn.DefineDomain(t.Context(), vm.Entry.PersistentXML); err != nil {
				t.Fatal(err)
			}

			unlock()

			if err := fleettest.Await(t, over); err != nil {
				t.Fatal(err)
			}

			now, err := bob.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
			if err != nil || now.On.Name != to.Name || now.Metadata.Migration(order) != nil {
				t.Errorf("%+v, %v", now, err)
			}

			for _, h := range []*inventory.Host{from, to} {
				if _, err := h.Conn.OwnSecret(t.Context(), lease.UsagePrefix+vm.UUID); !inventory.IsNotFound(err) {
					t.Errorf("host %s: a lock is left: %v", h.Name, err)
				}
			}
		})
	}
}

// defined is how often a fleet has tried to define a secret on the host.
func defined(f *Fleet, host string) int { return f.Calls()[host]["virSecretDefineXML"] }

// A lock whose host was silent when it was to be given back is given back once the host answers, so that no run has to
// wait until it counts as left behind.
func TestLab_lockIsGivenBackLater(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	own := l.StartHost(t)
	f := ownFleet(t, "alice", own)
	h := f.Host(own.Name)

	_, unlock, err := f.Lock(t.Context(), h, "a-test", "a test")
	if err != nil {
		t.Fatal(err)
	}

	restart := l.KillLibvirtd(t, own)

	unlock()
	restart()

	ctx, cancel := context.WithTimeout(t.Context(), inventory.FinishTimeout)
	defer cancel()

	for {
		if _, err := h.Conn.OwnSecret(ctx, lease.UsagePrefix+"a-test"); inventory.IsNotFound(err) {
			return
		}

		if err := admission.Pause(ctx, 200*time.Millisecond); err != nil {
			t.Fatal("the lock is left")
		}
	}
}
