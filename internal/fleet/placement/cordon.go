package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Cordon prevents this and every other run from placing, starting or moving VMs on the host, until Uncordon. If the
// host is cordoned with the same id, the reason is updated; if with another id, Cordon returns ErrExists.
func (co *Cordons) Cordon(ctx context.Context, name, id, why string) error {
	return co.CordonFor(ctx, name, id, why, nil)
}

// CordonFor is Cordon, for a drain if evacuation is given: the cordon and evacuation's steps are written in one call,
// and the cordon of a drain that was left unfinished is replaced.
func (co *Cordons) CordonFor(
	ctx context.Context, name, id, why string, evacuation func() *hostrecord.Evacuation,
) error {
	h, err := co.hosts.UsableHost(name)
	if err != nil {
		return err
	}

	// A VM that is being placed or started now is on the host before the cordon, and any later one sees the cordon.
	resume, err := co.endArrivals(ctx, h)
	if err != nil {
		return err
	}
	defer resume()

	held, unlock, err := co.capacity.lockPlacing(ctx, h)
	if err != nil {
		return err
	}
	defer unlock()

	defer h.Forget()

	return co.records.ChangeRecord(held, h, func(r *hostrecord.Record) error {
		switch {
		case r.Cordon == nil, r.Cordon.ID != id && evacuation != nil && r.Unfinished():
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

// uncordonGrace is how long to wait for a maintenance that ends in the same apply as the operation that needs the host.
const uncordonGrace = 30 * time.Second

// AwaitUncordoned waits up to uncordonGrace until the host is no longer cordoned.
func (co *Cordons) AwaitUncordoned(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, uncordonGrace)
	defer cancel()

	for {
		record, _, err := inventory.ReadRecord(ctx, co.hosts.Host(name))
		if err != nil || record.Cordon == nil || admission.Pause(ctx, time.Second) != nil {
			return // the caller reports what blocks the VM
		}
	}
}

// Uncordon removes the cordon with that id. It keeps the cordon of another id, and does nothing if there is none.
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

// cordonOf returns the cordon of a host that answered, nil if there is none.
func cordonOf(ctx context.Context, a inventory.Reply) (*hostrecord.Cordon, error) {
	record, err := a.RecordOf(ctx)
	if err != nil {
		return nil, err
	}

	return record.Cordon, nil
}

// judgeCordon refuses a host that is cordoned, or whose cordon can't be read.
func (c *candidate) judgeCordon(ctx context.Context) {
	switch mark, err := cordonOf(ctx, c.Reply); {
	case err != nil:
		c.refuse("host", "whether it is cordoned can't be read: %v", inventory.WithoutHost(err))
	case mark != nil:
		c.problems = append(c.problems, inventory.Problem{
			Attribute: "host", Remedy: uncordonRemedy(c.Host.Name), Next: inventory.EndMaintenance,
			Detail: fmt.Sprintf("it is cordoned by %s since %s: %s", mark.Owner, mark.Since.Format(time.RFC3339), mark.Why),
		})
	}
}

// CordonBlocker returns the blocker of a cordoned target, nil if the host isn't cordoned.
func CordonBlocker(ctx context.Context, a inventory.Reply) (*migration.Blocker, error) {
	mark, err := cordonOf(ctx, a)
	if err != nil || mark == nil {
		return nil, err
	}

	return &migration.Blocker{
		Reason: migration.HostCordoned, Status: status.False, Attribute: "host", Message: mark.Text(a.Host.Name),
		Remedy: uncordonRemedy(a.Host.Name) + " If no state has that, the run that began it was killed: the guide \"When " +
			"a drain stops\" says how to end it.",
	}, nil
}

// uncordonRemedy says how a VM gets to a host although the host is cordoned.
func uncordonRemedy(host string) string {
	return fmt.Sprintf("Choose another host, or end the maintenance of host %q: destroy its virtfleet_host_maintenance.",
		host)
}
