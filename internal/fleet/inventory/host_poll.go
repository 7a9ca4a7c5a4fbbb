package inventory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostPoll is what one host said, in one pass, of how its VMs stand.
type HostPoll struct {
	Host string
	// At is when it answered, or didn't, by our own clock.
	At time.Time
	// Err says why it did not answer.
	Err error

	View *View
}

// AskedHost is the host of that name, if it is one that may be asked.
func (inv *Inventory) AskedHost(name string) (*Host, error) {
	h := inv.Host(name)
	if h == nil || h.Config.Fenced {
		return nil, &Error{Host: name, Kind: ErrUnreachable, Detail: fmt.Sprintf("host %q is not asked", name)}
	}

	return h, nil
}

// PollHost asks one host how its VMs stand: one call that waits for none of them, and what the VMs are from the host's
// view, which is read anew when it is older than a minute or lacks one of them.
func (inv *Inventory) PollHost(ctx context.Context, name string) HostPoll {
	v, err := inv.pollHost(ctx, name)

	return HostPoll{Host: name, At: time.Now(), Err: err, View: v}
}

func (inv *Inventory) pollHost(ctx context.Context, name string) (*View, error) {
	h, err := inv.AskedHost(name)
	if err != nil {
		return nil, err
	}

	all, err := h.Conn.Stats(ctx, libvirt.StatsState)
	if err != nil {
		return nil, err
	}

	v, err := inv.ViewWith(ctx, h, all)
	if err != nil {
		return nil, err
	}

	now := v.With(make(map[string]*Entry, len(all)))

	for _, d := range all {
		if e := v.Domains[d.UUID]; e != nil { // Else it came in this very moment.
			now.Domains[d.UUID] = e.In(d.State, d.Reason)
		}
	}

	return now, nil
}

// In is the same domain in another state. What was parsed is kept.
func (e *Entry) In(state libvirt.DomainState, reason string) *Entry {
	if e.State == state && e.Reason == reason {
		return e
	}

	other := NewEntry(e.Domain)
	other.State, other.Reason = state, reason
	other.once.Do(func() { other.parsed = e.Parse() })

	return other
}

// MergePolls merges what hosts said, at about the same time, of every VM, sorted by name. A host whose poll is missing
// counts as silent. last says where VMs were seen before, by their UUIDs.
func (inv *Inventory) MergePolls(polls []HostPoll, last map[string]LastKnown) []Listed {
	by := make(map[string]HostPoll, len(polls))
	for _, p := range polls {
		by[p.Host] = p
	}

	answers := make([]Reply, len(inv.Configured))
	for i, h := range inv.Configured {
		answers[i].Host = h
		if h.Config.Fenced {
			continue
		}

		switch p := by[h.Name]; {
		case p.View != nil:
			answers[i].View, answers[i].Info = p.View, p.View.Info
		case p.Err != nil:
			answers[i].Err = p.Err
		default:
			answers[i].Err = ErrUnreachable
		}
	}

	machines, _ := listed(answers, last)

	return machines
}

// refreshAtOnce is how many VMs of a host are read again one by one.
const refreshAtOnce = 8

// RefreshVMs reads the definitions of VMs of a host again, because something happened to them, so that the next
// PollHost knows them as they are now.
func (inv *Inventory) RefreshVMs(ctx context.Context, name string, uuids []string) {
	h, err := inv.AskedHost(name)
	if err != nil {
		return
	}

	if len(uuids) > refreshAtOnce {
		h.Forget()

		return
	}

	var questions errgroup.Group

	for _, uuid := range uuids {
		questions.Go(func() error {
			d, err := h.Conn.Domain(ctx, uuid)
			if err == nil || IsNotFound(err) {
				h.Remember(uuid, d)

				return nil
			}

			return err
		})
	}

	if questions.Wait() != nil {
		h.Forget()
	}
}

// Migration describes the migration that the VM is in, nil for none. job is its running job; without it the statistics
// are missing.
func (vm *VM) Migration(job *libvirt.Job) *migration.State {
	s, _ := Underway(vm, job)

	return s
}

// LeavesFrom is the host that knows the VM's job: the source of its migration, else the one that has it.
func (vm *VM) LeavesFrom() string {
	for name, role := range vm.ActiveHosts {
		if role == status.RoleSource {
			return name
		}
	}

	return vm.Host
}

// MovedBy is the last job that ended on a VM's host, which for one that has just arrived is the migration that brought
// it; nil when it is unknown.
func (vm *VM) MovedBy(ctx context.Context) *libvirt.Job {
	job, err := vm.On.Conn.CompletedJob(ctx, vm.UUID)
	if err != nil || job == nil || job.Operation != libvirt.OperationMigrationIn {
		return nil
	}

	return job
}

// ViewWith returns a view of the host that has the domains, as far as they are still there.
func (inv *Inventory) ViewWith(ctx context.Context, h *Host, all []libvirt.DomainStats) (*View, error) {
	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return nil, err
	}

	unknown := func(d libvirt.DomainStats) bool {
		e := v.Domains[d.UUID]

		return e == nil || e.Name != d.Name || e.Active() != d.State.Active()
	}
	if v.Err != nil || slices.ContainsFunc(all, unknown) {
		h.Forget()

		if v, err = inv.ViewOf(ctx, h); err != nil {
			return nil, err
		}
	}

	return v, v.Err
}
