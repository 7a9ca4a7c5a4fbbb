package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A run that has lost its lock on a host's room neither reserves room there nor cordons the host: other runs may have
// placed VMs. Once all that the run began under the lock is over, it takes the lock again.
func TestLab_placingStopsWithoutItsLock(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	h := l.StartHost(t)
	f := openFleet(t, ownConfig("alice", h))

	d := guest(l, lab.Name(t), "noagent")
	d.Metadata.RunStrategy = "Halted"
	vm := create(t, f, l, d)
	to := f.Host(h.Name)

	arrival, err := f.ReserveArrival(t.Context(), vm, to, true)
	if err != nil {
		t.Fatal(err)
	}

	usage := libvirt.OwnSecret{
		UsageType: libvirt.SecretUsageVTPM, UsageID: lease.UsagePrefix + "placement", Value: []byte(`{"owner":"bob"}`),
	}

	mine, err := to.Conn.OwnSecret(t.Context(), usage.UsageID)
	if err != nil {
		t.Fatal(err)
	}

	if err := to.Conn.UndefineOwnSecret(t.Context(), *mine); err != nil {
		t.Fatal(err)
	}

	if err := to.Conn.DefineOwnSecret(t.Context(), usage); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 9*lease.Validity)
	defer cancel()

	for err = nil; err == nil; { // It is lost when the next renewal finds the other one's.
		var again *placement.Arrival
		if again, err = f.ReserveArrival(ctx, vm, to, true); err == nil {
			again.Release()

			select {
			case <-ctx.Done():
				t.Fatal("room is still reserved without the lock")
			case <-time.After(time.Second):
			}
		}
	}

	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("reserving room: %v; want %v", err, lease.ErrLost)
	}

	if err := f.Cordon(ctx, h.Name, "m", "a test"); !errors.Is(err, lease.ErrLost) {
		t.Errorf("cordoning the host: %v; want %v", err, lease.ErrLost)
	}

	other, err := to.Conn.OwnSecret(t.Context(), usage.UsageID)
	if err != nil {
		t.Fatal(err)
	}

	if err := to.Conn.UndefineOwnSecret(t.Context(), *other); err != nil {
		t.Fatal(err)
	}

	arrival.Release()

	arrival, err = f.ReserveArrival(t.Context(), vm, to, true)
	if err != nil {
		t.Fatalf("with a lock of its own: %v", err)
	}

	arrival.Release()
}
