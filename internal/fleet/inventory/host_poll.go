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

// HostPoll is what one host reported, in one poll, about the state of its VMs.
type HostPoll struct {
	Host string
	// At is when the host answered or failed to answer, by this computer's clock.
	At time.Time
	// Err is the reason why the host did not answer.
	Err error

	View *View
}

// AskedHost returns the host of that name, or an error if it isn't configured or is fenced.
func (inv *Inventory) AskedHost(name string) (*Host, error) {
	h := inv.Host(name)
	if h == nil || h.Config.Fenced {
		return nil, &Error{Host: name, Kind: ErrUnreachable, Detail: fmt.Sprintf("host %q is not asked", name)}
	}

	return h, nil
}

// PollHost queries the state of a host's VMs: with one call that doesn't wait for any VM, and with the host's view,
// which is read again if it is older than a minute or lacks one of the VMs.
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
		h.Forget() // Until it answers again, guests may have been restarted, which their states don't show.

		return nil, err
	}

	v, err := inv.ViewWith(ctx, h, all)
	if err != nil {
		return nil, err
	}

	now := v.With(make(map[string]*Entry, len(all)))

	for _, d := range all {
		if e := v.Domains[d.UUID]; e != nil { // otherwise the VM appeared just now
			now.Domains[d.UUID] = e.In(d.State, d.Reason)
		}
	}

	return now, nil
}

// In returns the same domain in another state. It keeps what was parsed.
func (e *Entry) In(state libvirt.DomainState, reason string) *Entry {
	if e.State == state && e.Reason == reason {
		return e
	}

	other := NewEntry(e.Domain)
	other.State, other.Reason = state, reason
	other.once.Do(func() { other.parsed = e.Parse() })

	return other
}

// MergePolls merges polls of about the same time into a list of all VMs, sorted by name. A host without a poll counts
// as unreachable. last says where VMs were last seen, by UUID.
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

// refreshAtOnce is the largest number of a host's VMs that RefreshVMs reads one by one.
const refreshAtOnce = 8

// RefreshVMs reads the definitions of a host's VMs again after an event, so that the next PollHost has their current
// definitions.
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

// Migration describes the VM's running migration, nil if there is none. job is the VM's running job; if it is nil, the
// statistics are missing.
func (vm *VM) Migration(job *libvirt.Job) *migration.State {
	s, _ := Underway(vm, job)

	return s
}

// JobHost returns the host that has the VM's job: the source of its migration, else the VM's host.
func (vm *VM) JobHost() string {
	for name, role := range vm.ActiveHosts {
		if role == status.RoleSource {
			return name
		}
	}

	return vm.Host
}

// MovedBy returns the last completed job on the VM's host, or nil if it is unknown. For a VM that has just arrived,
// this is the migration that brought it.
func (vm *VM) MovedBy(ctx context.Context) *libvirt.Job {
	job, err := vm.On.Conn.CompletedJob(ctx, vm.UUID)
	if err != nil || job == nil || job.Operation != libvirt.OperationMigrationIn {
		return nil
	}

	return job
}

// ViewWith returns a view of the host that has the given domains, except those that are gone.
func (inv *Inventory) ViewWith(ctx context.Context, h *Host, all []libvirt.DomainStats) (*View, error) {
	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return nil, err
	}

	if v.Err != nil || slices.ContainsFunc(all, v.lacks) {
		h.Forget()

		if v, err = inv.ViewOf(ctx, h); err != nil {
			return nil, err
		}
	}

	return v, v.Err
}
