package fleet

import (
	"context"
	"time"

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

func (f *Fleet) undefine(ctx context.Context, h *host, uuid string, keep ...libvirt.Kept) error {
	err := h.conn.UndefineDomain(ctx, uuid, keep...)
	if err == nil || isNotFound(err) {
		h.remember(uuid, nil)

		return nil
	}

	return err
}
