package move

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// startTimeout is how long the start of a VM may take. QEMU needs a second, and longer if it restores memory from an
// image.
const startTimeout = time.Minute

// LockWhereItIs finds the VM, and takes its lock on the host that has it. If the VM moves while LockWhereItIs waits for
// the lock, it follows the VM: a lock on the previous host protects nothing. It also concludes a migration whose run
// was killed, as a move does. To resume a migration that broke in post-copy may take as long as its options allow, so
// LockWhereItIs does it only if own, the VM's own options, are given. Otherwise it returns an error. After an error the
// VM is not locked.
func (mv *Mover) LockWhereItIs(
	ctx context.Context, uuid string, last inventory.LastKnown, purpose string, own *migration.Options,
) (context.Context, func(), *inventory.VM, error) {
	vm, err := mv.hosts.FindNow(ctx, uuid, last)
	if err != nil {
		return nil, nil, nil, err
	}

	for concluded := false; ; {
		held, unlock, err := mv.records.Lock(ctx, vm.On, uuid, purpose)
		if err != nil {
			return nil, nil, nil, err
		}

		now, err := mv.findIdle(held, uuid, last)
		if err == nil && now.On == vm.On {
			return held, unlock, now, nil
		}

		unlock()

		if err != nil && (concluded || now == nil || !now.LeftMoving() || own == nil && now.BrokeInPostCopy()) {
			return nil, nil, now, err
		}

		if err != nil {
			concluded = true

			var options migration.Options
			if own != nil {
				options = *own
			}

			if now, err = mv.ConcludeInterrupted(ctx, now, last, options); err != nil {
				return nil, nil, now, err
			}

			last = inventory.LastKnown{Host: now.Host, HostUUID: now.HostUUID}
		}

		vm = now
	}
}

// findIdle finds a VM that is to be changed, under its lock. If the VM is starting, findIdle waits, and completes a
// start that another run didn't complete. If the VM is being moved, findIdle returns it with an error.
func (mv *Mover) findIdle(ctx context.Context, uuid string, last inventory.LastKnown) (*inventory.VM, error) {
	vm, err := mv.hosts.FindNow(ctx, uuid, last)
	if err == nil && vm.Status() == status.StatusStarting {
		waiting, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()

		if _, err := inventory.Await(waiting, vm, func(d *libvirt.Domain) bool {
			return d == nil || status.PrintableStatusOf(d.State.String(), d.Reason, false) != status.StatusStarting
		}); err != nil {
			return vm, &inventory.Error{
				VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Err: err, Detail: "it is still starting",
				Remedy: "Look at the VM's log on the host.", Next: inventory.Retry,
			}
		}

		vm, err = mv.hosts.FindNow(ctx, uuid, last)
	}

	if err == nil && vm.StartInterrupted {
		vm, err = mv.finishStart(ctx, vm)
	}

	if err != nil {
		return nil, err
	}

	return vm, vm.RequireIdle()
}

// WithVMLocked finds the VM, and calls a function on it under its lock.
func (mv *Mover) WithVMLocked(
	ctx context.Context, uuid string, last inventory.LastKnown, purpose string,
	do func(context.Context, *inventory.VM) error,
) error {
	ctx = inventory.AsOneOperation(ctx)

	held, unlock, vm, err := mv.LockWhereItIs(ctx, uuid, last, purpose, nil)
	if err != nil {
		return err
	}
	defer unlock()

	err = do(held, vm)

	after, cancel := lease.CleanupContext(ctx, records.CleanupTimeout)
	defer cancel()

	if _, readErr := mv.hosts.ReadVM(after, vm.On, uuid); readErr != nil {
		vm.On.Forget()
	}

	return err
}

// lockOrder returns the source and the target in the order of their libvirt UUIDs, which were read with the VM. Another
// run's configuration may give the hosts other names, whose order is the opposite one. Then each run would wait for the
// lock that the other one holds.
func (m *move) lockOrder(ctx context.Context) (first, second *inventory.Host) {
	target := ""
	if info, err := m.to.Conn.Info(ctx); err == nil { // If the target doesn't answer, taking its lock returns the error.
		target = info.UUID
	}

	byUUID := strings.Compare(m.vm.HostUUID, target)
	if m.vm.HostUUID == "" || target == "" {
		byUUID = 0
	}

	if cmp.Or(byUUID, inventory.ByHostName(m.from, m.to)) < 0 {
		return m.from, m.to
	}

	return m.to, m.from
}

// unlockBoth releases both locks at the same time: only who takes them has to keep an order.
func unlockBoth(first, second func()) {
	var both sync.WaitGroup

	both.Go(first)
	both.Go(second)
	both.Wait()
}
