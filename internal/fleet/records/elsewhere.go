package records

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// TellElsewhere records on the other hosts that the maintenance with this id drained this host. Hosts that don't answer
// don't get the record, which matters only while this host is unreachable, or if it loses its own record.
func (s *Store) TellElsewhere(ctx context.Context, name, id string, e *hostrecord.Evacuation) {
	over := s.openHosts(ctx)

	_, err := s.changeRecords(ctx, func(host string, r *hostrecord.Record) {
		r.ForgetElsewhere(name, id, over)

		if host == name {
			return
		}

		if r.Elsewhere == nil {
			r.Elsewhere = make(map[string]*hostrecord.Evacuation)
		}

		r.Elsewhere[name] = e.Told(id)
	})
	if err != nil {
		s.log.WarnContext(ctx, "maintenance not recorded on other hosts", "host", name, "error", err.Error())
	}
}

// TellReleased records on the other hosts that the maintenance with this id, of this host, is over. If one of them
// doesn't answer, the others record that its data about that maintenance no longer counts.
func (s *Store) TellReleased(ctx context.Context, name, id string, e *hostrecord.Evacuation) {
	over, since := s.openHosts(ctx), s.evacuatedSince(ctx, name)
	if e != nil && e.Since.After(since) {
		since = e.Since
	}

	change := func(untold bool) (failed []string, err error) {
		return s.changeRecords(ctx, func(_ string, r *hostrecord.Record) {
			r.ForgetElsewhere(name, id, over)

			if untold && !since.IsZero() {
				if r.Released == nil {
					r.Released = make(map[string]time.Time)
				}

				r.Released[name] = since
			}
		})
	}

	fenced := s.hosts.FencedHosts()
	untold := len(fenced) > 1 || len(fenced) == 1 && fenced[0] != name

	failed, err := change(untold)
	if len(failed) > 0 && !untold {
		_, err = change(true)
	}

	if err != nil {
		s.log.WarnContext(ctx, "the end of a maintenance is not recorded on other hosts", "host", name, "error", err.Error())
	}
}

// openHosts returns the hosts that answer and aren't cordoned.
func (s *Store) openHosts(ctx context.Context) map[string]bool {
	open := make(map[string]bool)

	answers, err := s.hosts.Snapshot(ctx)
	if err != nil {
		return open
	}

	for _, a := range answers {
		if a.Fenced() || a.Err != nil {
			continue
		}

		if record, _, err := inventory.ReadRecord(ctx, a.Host); err == nil && record.Cordon == nil {
			open[a.Host.Name] = true
		}
	}

	return open
}

// evacuatedSince returns when the last evacuation of the host began, as far as the other hosts know; zero if they know
// of none.
func (s *Store) evacuatedSince(ctx context.Context, name string) time.Time {
	if e := s.ToldElsewhere(ctx, name); e != nil {
		return e.Since
	}

	return time.Time{}
}

// ToldElsewhere returns what the other hosts know of the host's maintenance, nil if it is under none. A maintenance
// that one host knows of doesn't count if any host, also this one, has recorded its end.
func (s *Store) ToldElsewhere(ctx context.Context, name string) *hostrecord.Evacuation {
	answers, err := s.hosts.Snapshot(ctx)
	if err != nil {
		return nil
	}

	var (
		known    *hostrecord.Evacuation
		released time.Time
	)

	for _, a := range answers {
		if a.Fenced() {
			continue
		}

		record, err := a.RecordIfAny(ctx)
		if err != nil {
			continue
		}

		if e := record.Elsewhere[name]; a.Host.Name != name && e != nil && (known == nil || e.Since.After(known.Since)) {
			known = e
		}

		if t := record.Released[name]; t.After(released) {
			released = t
		}
	}

	if known == nil || !known.Since.After(released) {
		return nil
	}

	return known
}

// SwitchedOff reports whether a host that doesn't answer was drained for its maintenance, which is the usual reason why
// it doesn't. If the host's own record can be read, that record says whether the maintenance is over.
func (s *Store) SwitchedOff(ctx context.Context, name string) bool {
	return s.ToldElsewhere(ctx, name) != nil
}

// SwitchedOffWith is SwitchedOff for a host that had the VM last. It is false unless the drain left the VM there: a VM
// that came after the drain shows that the host was in use again.
func (s *Store) SwitchedOffWith(ctx context.Context, name, uuid string) bool {
	e := s.ToldElsewhere(ctx, name)

	return e != nil && e.Keeps(uuid)
}

// LostMaintenance returns what the other hosts know of a maintenance whose host has lost its record, nil if record has
// it or the maintenance is over.
func (s *Store) LostMaintenance(
	ctx context.Context, name, id string, record *hostrecord.Record,
) *hostrecord.Evacuation {
	told := s.ToldElsewhere(ctx, name)
	if !record.Lost(told, id) {
		return nil
	}

	return told.Recovered()
}
