package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Cordon keeps machines from coming to the host, for this and every other run,
// until Uncordon. A host that carries the mark already is told the reason anew;
// one that carries that of another id is ErrExists.
func (f *Fleet) Cordon(ctx context.Context, name, id, why string) error {
	h, err := f.targetHost(name)
	if err != nil {
		return err
	}

	// Whoever is placing a machine now has it there before the mark, and whoever
	// comes next sees the mark.
	unlock, err := f.lockPlacing(ctx, h)
	if err != nil {
		return err
	}
	defer unlock()

	defer h.forget()

	return f.changeRecord(ctx, h, func(r *HostRecord) error {
		switch {
		case r.Cordon == nil:
			r.Cordon = &Cordon{ID: id, Owner: f.owner, Since: time.Now().UTC().Truncate(time.Second), Why: why}
		case r.Cordon.ID != id:
			return &Error{
				Host: name, Kind: ErrExists, Detail: r.Cordon.text(name),
				Remedy: "Wait until that is over, or remove what cordons it.",
			}
		default:
			r.Cordon.Why = why
		}

		return nil
	})
}

// uncordonGrace is how long a maintenance may take to end that ends in the same
// apply as whatever waits for that.
const uncordonGrace = 30 * time.Second

// awaitUncordoned waits until the host takes machines again, for a while.
func (f *Fleet) awaitUncordoned(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, uncordonGrace)
	defer cancel()

	for {
		record, _, err := readRecord(ctx, f.host(name))
		if err != nil || record.Cordon == nil || pause(ctx, time.Second) != nil {
			return // Whoever goes on is told what is in the way.
		}
	}
}

// Uncordon lets machines come to the host again. A mark of another id stays,
// and none is what was wanted.
func (f *Fleet) Uncordon(ctx context.Context, name, id string) error {
	h, err := f.targetHost(name)
	if err != nil {
		return err
	}

	return f.changeRecord(ctx, h, func(r *HostRecord) error {
		if r.Cordon != nil && r.Cordon.ID == id {
			r.Cordon = nil
		}

		return nil
	})
}

// text says that the host is cordoned.
func (c *Cordon) text(host string) string {
	return fmt.Sprintf("host %q is cordoned by %s since %s: %s", host, c.Owner, c.Since.Format(time.RFC3339), c.Why)
}

// cordoned is the mark on a host that answered, nil where there is none.
func (a answer) cordoned(ctx context.Context) (*Cordon, error) {
	record, err := a.recordOf(ctx)
	if err != nil {
		return nil, err
	}

	return record.Cordon, nil
}

// judgeCordon refuses a host that takes no machines, or of which nobody can say
// whether it does.
func (c *candidate) judgeCordon(ctx context.Context) {
	switch mark, err := c.cordoned(ctx); {
	case err != nil:
		c.refuse("host", "whether it is cordoned can't be read: %v", withoutHost(err))
	case mark != nil:
		c.refuse("host", "it is cordoned by %s since %s: %s", mark.Owner, mark.Since.Format(time.RFC3339), mark.Why)
	}
}

// cordonBlocker is what a cordoned target says to a machine that would come,
// nil where it isn't cordoned.
func (a answer) cordonBlocker(ctx context.Context) (*migration.Blocker, error) {
	mark, err := a.cordoned(ctx)
	if err != nil || mark == nil {
		return nil, err
	}

	return &migration.Blocker{
		Reason: migration.HostCordoned, Status: status.False, Attribute: "host", Message: mark.text(a.host.name),
		Remedy: "Choose another host, or uncordon this one: destroy its virtfleet_host_maintenance.",
	}, nil
}
