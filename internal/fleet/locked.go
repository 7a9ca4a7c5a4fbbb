package fleet

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// startTimeout is how long a machine may take from being defined as running to
// running. QEMU needs a second; one that gets its memory from an image more.
const startTimeout = time.Minute

// lockWhereItIs finds the machine and takes its lock on the host that has it. One
// that has moved while the lock was awaited is followed: what holds there holds
// nothing here. A machine that comes with an error is not locked.
func (f *Fleet) lockWhereItIs(
	ctx context.Context, uuid string, last LastKnown, purpose string,
) (context.Context, func(), *VM, error) {
	vm, err := f.findNow(ctx, uuid, last)
	if err != nil {
		return nil, nil, nil, err
	}

	for {
		held, unlock, err := f.lockOn(ctx, vm.host, uuid, purpose)
		if err != nil {
			return nil, nil, nil, err
		}

		now, err := f.findSettled(held, uuid, last)
		if err == nil && now.host == vm.host {
			return held, unlock, now, nil
		}

		unlock()

		if err != nil {
			return nil, nil, now, err
		}

		vm = now
	}
}

// findSettled is findNow for a machine that is to be changed. One that is just
// starting is waited for. One that is on its way is refused, and returned with
// the error.
func (f *Fleet) findSettled(ctx context.Context, uuid string, last LastKnown) (*VM, error) {
	vm, err := f.findNow(ctx, uuid, last)
	if err == nil && vm.Status() == status.StatusStarting {
		waiting, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()

		if _, err := f.await(waiting, vm, func(d *libvirt.Domain) bool {
			return d == nil || status.Printable(d.State.String(), d.Reason, false) != status.StatusStarting
		}); err != nil {
			return vm, &Error{
				VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Err: err, Detail: "it doesn't come to an end with starting",
				Remedy: "Look at the machine's log on the host, and apply again.",
			}
		}

		vm, err = f.findNow(ctx, uuid, last)
	}

	if err != nil {
		return nil, err
	}

	return vm, vm.settled()
}

// settled refuses a machine that is on its way: nobody can say which of its
// two copies will be the machine. So it does one that is in two parts.
func (vm *VM) settled() error {
	switch {
	case vm.broken():
		return &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: "its migration broke in post-copy: " + vm.facts().Parts(),
			Remedy: "Apply its resource, or that of the migration: it is resumed, or ended if it can't be and " +
				"on_irrecoverable in migration_options says so. What somebody else began has to be resumed there " +
				"(virsh migrate --postcopy-resume).",
		}
	case !vm.Migrating:
		return nil
	}

	return &Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: "it is being migrated",
		Remedy: "Wait for the migration to end, or abort it with virsh domjobabort, and apply again.",
	}
}

// onMachine finds the machine, and does something to it under its lock.
func (f *Fleet) onMachine(
	ctx context.Context, uuid string, last LastKnown, purpose string, do func(context.Context, *VM) error,
) error {
	held, unlock, vm, err := f.lockWhereItIs(ctx, uuid, last, purpose)
	if err != nil {
		return err
	}
	defer unlock()

	err = do(held, vm)

	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()

	if _, readErr := f.reread(after, vm.host, uuid); readErr != nil {
		vm.host.forget()
	}

	return err
}
