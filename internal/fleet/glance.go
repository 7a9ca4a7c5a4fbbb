package fleet

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Glance is what one host said, in one pass, of how its machines stand.
type Glance struct {
	Host string
	// At is when it answered, or didn't, by our own clock.
	At time.Time
	// Err says why it did not answer.
	Err error

	view *view
}

// asked is the host of that name, if it is one that may be asked.
func (f *Fleet) asked(name string) (*host, error) {
	h := f.host(name)
	if h == nil || h.cfg.Fenced {
		return nil, &Error{Host: name, Kind: ErrUnreachable, Detail: fmt.Sprintf("host %q is not asked", name)}
	}

	return h, nil
}

// Glance asks one host how its machines stand: one call that waits for none of
// them, and what the machines are from the host's view, which is read anew when
// it is older than a minute or lacks one of them.
func (f *Fleet) Glance(ctx context.Context, name string) Glance {
	v, err := f.glance(ctx, name)

	return Glance{Host: name, At: time.Now(), Err: err, view: v}
}

func (f *Fleet) glance(ctx context.Context, name string) (*view, error) {
	h, err := f.asked(name)
	if err != nil {
		return nil, err
	}

	all, err := h.conn.Stats(ctx, libvirt.StatsState)
	if err != nil {
		return nil, err
	}

	v, err := f.viewWith(ctx, h, all)
	if err != nil {
		return nil, err
	}

	now := &view{info: v.info, record: v.record, at: v.at, domains: make(map[string]*entry, len(all))}

	for _, d := range all {
		if e := v.domains[d.UUID]; e != nil { // Else it came in this very moment.
			now.domains[d.UUID] = e.in(d.State, d.Reason)
		}
	}

	return now, nil
}

// in is the same domain in another state. What was parsed is kept.
func (e *entry) in(state libvirt.DomainState, reason string) *entry {
	if e.State == state && e.Reason == reason {
		return e
	}

	other := newEntry(e.Domain)
	other.State, other.Reason = state, reason
	other.once.Do(func() { other.parsed = e.parse() })

	return other
}

// Together puts together what hosts said, at about the same time, of every
// machine, sorted by name. A host whose glance is missing counts as silent. last
// says where machines were seen before, by their UUIDs.
func (f *Fleet) Together(glances []Glance, last map[string]LastKnown) []Listed {
	by := make(map[string]Glance, len(glances))
	for _, g := range glances {
		by[g.Host] = g
	}

	answers := make([]answer, len(f.hosts))
	for i, h := range f.hosts {
		answers[i].host = h
		if h.cfg.Fenced {
			continue
		}

		switch g := by[h.name]; {
		case g.view != nil:
			answers[i].view, answers[i].info = g.view, g.view.info
		case g.Err != nil:
			answers[i].err = g.Err
		default:
			answers[i].err = ErrUnreachable
		}
	}

	machines, _ := listed(answers, last)

	return machines
}

// rereadAtOnce is how many machines of a host are read again one by one.
const rereadAtOnce = 8

// Reread reads the definitions of machines of a host again, because something
// happened to them, so that the next Glance knows them as they are now.
func (f *Fleet) Reread(ctx context.Context, name string, uuids []string) {
	h, err := f.asked(name)
	if err != nil {
		return
	}

	if len(uuids) > rereadAtOnce {
		h.forget()

		return
	}

	var questions errgroup.Group

	for _, uuid := range uuids {
		questions.Go(func() error {
			d, err := h.conn.Domain(ctx, uuid)
			if err == nil || isNotFound(err) {
				h.remember(uuid, d)

				return nil
			}

			return err
		})
	}

	if questions.Wait() != nil {
		h.forget()
	}
}

// Migration describes the migration that the machine is in, nil for none. job is
// its running job; without it the statistics are missing.
func (vm *VM) Migration(job *libvirt.Job) *migration.State {
	s, _ := underway(vm, job)

	return s
}

// LeavesFrom is the host that knows the machine's job: the source of its
// migration, else the one that has it.
func (vm *VM) LeavesFrom() string {
	for name, role := range vm.ActiveHosts {
		if role == status.RoleSource {
			return name
		}
	}

	return vm.Host
}

// MovedBy is the last job that ended on a machine's host, which for one that has
// just arrived is the migration that brought it; nil when nobody knows.
func (vm *VM) MovedBy(ctx context.Context) *libvirt.Job {
	job, err := vm.host.conn.CompletedJob(ctx, vm.UUID)
	if err != nil || job == nil || job.Operation != libvirt.OperationMigrationIn {
		return nil
	}

	return job
}
