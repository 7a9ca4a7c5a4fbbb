package drain

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// noteRan records whether the VM of a step is shut down by this Release to be moved back: see coldNotes.
func (r *releaseRun) noteRan(ctx context.Context, i int, returning, halted bool) error {
	s := &r.evacuation.Steps[i]

	err := r.drainer.records.ChangeRecord(ctx, r.host, func(record *hostrecord.Record) error {
		at := r.indexIn(record, s.UUID)
		if at < 0 {
			return &inventory.Error{
				VM: s.Name, Host: r.host.Name, Kind: inventory.ErrBusy,
				Detail: fmt.Sprintf("another run has changed the maintenance of host %q", r.host.Name), Next: inventory.Replan,
			}
		}

		noted := &record.Evacuation.Steps[at]
		noted.Returning, noted.ReturningHalted = returning, returning && halted

		return nil
	})
	if err == nil || !returning { // A VM that runs again does so, recorded or not.
		s.Returning, s.ReturningHalted = returning, returning && halted
	}

	return err
}

// forget removes a step whose VM is restored from the record: if this run is killed, the next one must not start a VM
// that its user has turned off since.
func (r *releaseRun) forget(ctx context.Context, s hostrecord.RecordedStep) {
	err := r.drainer.records.ChangeRecord(ctx, r.host, func(record *hostrecord.Record) error {
		if at := r.indexIn(record, s.UUID); at >= 0 {
			record.Evacuation.Steps = slices.Delete(record.Evacuation.Steps, at, at+1)
		}

		return nil
	})
	if err != nil { // The end of this run records it.
		r.drainer.log.WarnContext(ctx, "not recorded that a VM is restored", "name", s.Name, "error", err.Error())
	}
}

// indexIn returns the index of the VM's step in the record; -1 if the record has none that this run undoes.
func (r *releaseRun) indexIn(record *hostrecord.Record, uuid string) int {
	if record.Evacuation == nil || record.Evacuation.Releasing != r.evacuation.Releasing {
		return -1
	}

	return slices.IndexFunc(record.Evacuation.Steps, func(s hostrecord.RecordedStep) bool { return s.UUID == uuid })
}
