package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// DeleteReport says how a machine was removed.
type DeleteReport struct {
	// Host is where it was.
	Host string
	// Outcome says how it came to be off.
	Outcome Outcome
	// SilentHosts did not answer; a leftover definition there was not removed.
	SilentHosts []string
}

// Delete shuts the machine down and removes its definition, and leftover
// definitions elsewhere. Its disks stay. A machine that is proven to be gone
// is no error.
func (f *Fleet) Delete(ctx context.Context, uuid string, last LastKnown, grace time.Duration) (*DeleteReport, error) {
	ctx, unlock, vm, err := f.lockWhereItIs(ctx, uuid, last, "deleting")
	if isNotFound(err) {
		return &DeleteReport{Outcome: OutcomeNotRunning}, nil
	}

	if err != nil {
		return nil, err
	}
	defer unlock()

	report := &DeleteReport{Host: vm.Host, SilentHosts: vm.SilentHosts}

	report.Outcome, err = f.stop(ctx, vm, grace)
	if err != nil {
		vm.host.forget()

		return report, err
	}

	// With the machine goes what is known of unfinished copies.
	if len(vm.Metadata.Copies) > 0 {
		if _, err := f.discardCopies(ctx, vm, nil); err != nil {
			f.log.WarnContext(ctx, "an unfinished copy was not removed", "name", vm.Name, "error", err.Error())
		}
	}

	if err := f.undefine(ctx, vm.host, uuid); err != nil {
		return report, err
	}

	return report, f.removeStale(ctx, vm)
}

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

func (f *Fleet) undefine(ctx context.Context, h *host, uuid string, keep ...libvirt.Kept) error {
	err := h.conn.UndefineDomain(ctx, uuid, keep...)
	if err == nil || isNotFound(err) {
		h.remember(uuid, nil)

		return nil
	}

	return err
}

// undefineLeftover removes a definition that the machine left behind on a host
// when it went to another one. What its firmware and its TPM keep goes with it,
// unless that may be what the machine uses where it is now: where hosts share a
// filesystem, both definitions name the same files.
func (f *Fleet) undefineLeftover(ctx context.Context, on *host, d *libvirt.Domain, home *host) error {
	shared := true

	definition, err := domain.Parse(d.PersistentXML)
	if err == nil {
		m := migration.Machine{UUID: d.UUID, Name: d.Name, Facts: definition.Mobility()}
		shared, err = migration.MayShare(ctx, m, on.conn, home.conn)
	}

	if !shared {
		return f.undefine(ctx, on, d.UUID)
	}

	f.log.WarnContext(ctx, "what firmware and TPM keep is left: the machine may use the same files where it is",
		"name", d.Name, "host", on.name, "its_host", home.name, "error", err)

	return f.undefine(ctx, on, d.UUID, libvirt.KeepVariables, libvirt.KeepTPM)
}

// removeStale removes leftover definitions. They are looked at once more: what
// runs is not a leftover.
func (f *Fleet) removeStale(ctx context.Context, vm *VM) error {
	for _, name := range vm.StaleHosts {
		h := f.host(name)

		d, err := h.conn.Domain(ctx, vm.UUID)
		if isNotFound(err) {
			continue
		}

		if err != nil {
			return err
		}

		if d.Active() {
			return &Error{
				VM: vm.Name, Host: name, Kind: ErrTwoCopies,
				Detail: fmt.Sprintf("the definition left behind on host %q runs now; it is not touched", name),
			}
		}

		f.log.InfoContext(ctx, "removing leftover definition", "name", vm.Name, "uuid", vm.UUID, "host", name)

		if err := f.undefineLeftover(ctx, h, d, vm.host); err != nil {
			return err
		}
	}

	return nil
}
