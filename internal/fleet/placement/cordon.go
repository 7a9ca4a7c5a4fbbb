package placement

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Cordon keeps VMs from coming to the host, for this and every other run, until Uncordon. A host that carries the mark
// already is told the reason anew; one that carries that of another id is ErrExists.
func (co *Cordons) Cordon(ctx context.Context, name, id, why string) error {
	return co.CordonFor(ctx, name, id, why, nil)
}

// CordonFor is Cordon, for a drain if evacuation says what it records: the mark and the steps are written
// at once, and the mark of a drain that was left unfinished is taken over.
func (co *Cordons) CordonFor(
	ctx context.Context, name, id, why string, evacuation func() *hostrecord.Evacuation,
) error {
	h, err := co.hosts.UsableHost(name)
	if err != nil {
		return err
	}

	// Whoever is placing or starting a VM now has it there before the mark, and whoever comes next sees the mark.
	resume, err := co.endArrivals(ctx, h)
	if err != nil {
		return err
	}
	defer resume()

	unlock, err := co.capacity.lockPlacing(ctx, h)
	if err != nil {
		return err
	}
	defer unlock()

	defer h.Forget()

	return co.records.ChangeRecord(ctx, h, func(r *hostrecord.Record) error {
		switch {
		case r.Cordon == nil, r.Cordon.ID != id && evacuation != nil && r.Abandoned():
			r.Cordon = &hostrecord.Cordon{ID: id, Owner: co.owner, Since: time.Now().UTC().Truncate(time.Second), Why: why}
		case r.Cordon.ID != id:
			return &inventory.Error{
				Host: name, Kind: inventory.ErrExists, Detail: r.Cordon.Text(name),
				Remedy: "Wait until that is over, or remove what cordons it.",
			}
		default:
			r.Cordon.Why = why
		}

		if evacuation != nil {
			r.Evacuation = evacuation()
		}

		return nil
	})
}

// uncordonGrace is how long a maintenance may take to end that ends in the same apply as whatever waits for that.
const uncordonGrace = 30 * time.Second

// AwaitUncordoned waits until the host takes VMs again, for a while.
func (co *Cordons) AwaitUncordoned(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, uncordonGrace)
	defer cancel()

	for {
		record, _, err := inventory.ReadRecord(ctx, co.hosts.Host(name))
		if err != nil || record.Cordon == nil || admission.Pause(ctx, time.Second) != nil {
			return // The caller is told what blocks it.
		}
	}
}

// Uncordon lets VMs come to the host again. A mark of another id stays, and none is what was wanted.
func (co *Cordons) Uncordon(ctx context.Context, name, id string) error {
	h, err := co.hosts.UsableHost(name)
	if err != nil {
		return err
	}

	return co.records.ChangeRecord(ctx, h, func(r *hostrecord.Record) error {
		if r.Cordon != nil && r.Cordon.ID == id {
			r.Cordon = nil
		}

		return nil
	})
}

// cordonOf is the mark on a host that answered, nil where there is none.
func cordonOf(ctx context.Context, a inventory.Reply) (*hostrecord.Cordon, error) {
	record, err := a.RecordOf(ctx)
	if err != nil {
		return nil, err
	}

	return record.Cordon, nil
}

// judgeCordon refuses a host that takes no VMs, or of which it is unknown whether it does.
func (c *candidate) judgeCordon(ctx context.Context) {
	switch mark, err := cordonOf(ctx, c.Reply); {
	case err != nil:
		c.refuse("host", "whether it is cordoned can't be read: %v", inventory.WithoutHost(err))
	case mark != nil:
		c.refuse("host", "it is cordoned by %s since %s: %s", mark.Owner, mark.Since.Format(time.RFC3339), mark.Why)
	}
}

// CordonBlocker is what a cordoned target says to a VM that would come, nil where it isn't cordoned.
func CordonBlocker(ctx context.Context, a inventory.Reply) (*migration.Blocker, error) {
	mark, err := cordonOf(ctx, a)
	if err != nil || mark == nil {
		return nil, err
	}

	return &migration.Blocker{
		Reason: migration.HostCordoned, Status: status.False, Attribute: "host", Message: mark.Text(a.Host.Name),
		Remedy: "Choose another host, or uncordon this one: destroy its virtfleet_host_maintenance.",
	}, nil
}
