package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Snapshot queries every host that is not fenced, in parallel, and returns their replies in the order of the hosts'
// names. A host that answered less than viewAge ago is not queried again.
func (inv *Inventory) Snapshot(ctx context.Context) ([]Reply, error) {
	return inv.snapshot(ctx, inv.ViewOf)
}

// SnapshotOfAnswering is Snapshot, but doesn't query hosts that didn't answer in this operation: they count as they
// were read last, or as unreachable.
func (inv *Inventory) SnapshotOfAnswering(ctx context.Context) ([]Reply, error) {
	return inv.snapshot(ctx, func(ctx context.Context, h *Host) (*View, error) {
		err := silentIn(ctx, h)
		if err == nil {
			return inv.ViewOf(ctx, h)
		}

		h.mu.Lock()
		defer h.mu.Unlock()

		if h.view == nil {
			return nil, err
		}

		return h.view, nil
	})
}

func (inv *Inventory) snapshot(
	ctx context.Context, read func(context.Context, *Host) (*View, error),
) ([]Reply, error) {
	answers := make([]Reply, len(inv.Configured))

	var wg sync.WaitGroup

	for i, h := range inv.Configured {
		answers[i].Host = h
		if h.Config.Fenced {
			continue
		}

		wg.Go(func() {
			v, err := read(ctx, h)
			if err != nil {
				v = NewView(nil, nil)
				v.Err = err
			}

			answers[i].View, answers[i].Info, answers[i].Err = v, v.Info, v.Err
		})
	}

	wg.Wait()

	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}

	return answers, duplicateHosts(answers)
}

// ForgetAll makes the next snapshot query every host again.
func (inv *Inventory) ForgetAll() {
	for _, h := range inv.Configured {
		h.Forget()
	}
}

// Reply is what one host answered to a query of the fleet.
type Reply struct {
	Host   *Host
	View   *View             // nil for a query about one VM, or a fenced host
	Info   *libvirt.HostInfo // nil if the host did not answer
	Domain *Entry            // the requested VM, nil if the host doesn't have it
	Err    error             // why the host did not answer
}

// Fenced reports whether the host is fenced, and so was not queried.
func (a Reply) Fenced() bool { return a.Host.Config.Fenced }

// RepliesAbout returns the replies with the VM's entry in each host's view as their Domain.
func RepliesAbout(answers []Reply, uuid string) []Reply {
	of := slices.Clone(answers)
	for i := range of {
		if v := of[i].View; v != nil {
			of[i].Domain = v.Domains[uuid]
		}
	}

	return of
}

// Lookup reads one VM from one host.
type Lookup func(context.Context, *libvirt.Host) (*libvirt.Domain, error)

func byUUID(uuid string) Lookup {
	return func(ctx context.Context, h *libvirt.Host) (*libvirt.Domain, error) { return h.Domain(ctx, uuid) }
}

// ByName returns a Lookup that reads the VM of that name.
func ByName(name string) Lookup {
	return func(ctx context.Context, h *libvirt.Host) (*libvirt.Domain, error) { return h.DomainByName(ctx, name) }
}

// AskAll queries every host that is not fenced for one VM, now.
func (inv *Inventory) AskAll(ctx context.Context, look Lookup) ([]Reply, error) {
	answers := make([]Reply, len(inv.Configured))

	var wg sync.WaitGroup

	for i, h := range inv.Configured {
		answers[i].Host = h
		if h.Config.Fenced {
			continue
		}

		wg.Go(func() { answers[i].Info, answers[i].Domain, answers[i].Err = askHost(ctx, h, look) })
	}

	wg.Wait()

	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}

	return answers, duplicateHosts(answers)
}

// AskTimeout limits the query for one VM, and the connection to a host that has answered before.
const AskTimeout = 30 * time.Second

// FinishTimeout limits what is to be done after a move or a drain that has ended, including one query of the fleet, in
// which an unreachable host may use its whole timeout.
//
// It is longer than lease.Grace, which limits all other operations. Those act on one host, and if it doesn't answer,
// the next apply finds out what became of them. A move has to be finished or undone on two hosts: if it were given up
// in between, it would leave definitions, files and an open record on both, and a guest that was shut down for it would
// stay off. It needs the reply of the host that lives, after a query that waits for the unreachable one.
const FinishTimeout = 2 * AskTimeout

func askHost(ctx context.Context, h *Host, look Lookup) (*libvirt.HostInfo, *Entry, error) {
	if err := silentIn(ctx, h); err != nil {
		return nil, nil, err
	}

	// The first question opens the connection, for which a user may have to touch a key: it has the limits of the
	// connection. A host that died since it answered must leave time for the others, see FinishTimeout.
	opening, opened := ctx, context.CancelFunc(func() {})
	if h.Conn.HasAnswered() {
		opening, opened = context.WithTimeout(ctx, AskTimeout)
	}

	info, err := h.Conn.Info(opening)

	opened()

	if err != nil {
		noteAnswer(ctx, h, err)

		return nil, nil, err
	}

	asking, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()

	d, err := look(asking, h.Conn)
	if IsNotFound(err) {
		noteAnswer(ctx, h, nil)

		return info, nil, nil
	}

	noteAnswer(ctx, h, err) // A daemon that hangs doesn't say this, though it has described its host before.

	if err != nil {
		return nil, nil, err
	}

	return info, withJob(asking, h.Conn, NewEntry(*d)), nil
}

// duplicateHosts returns an error if two entries of the configuration lead to the same host: each of its VMs would
// appear twice.
func duplicateHosts(answers []Reply) error {
	seen := make(map[string]*Host, len(answers))

	for _, a := range answers {
		if a.Info == nil || a.Info.UUID == "" {
			continue
		}

		if other, ok := seen[a.Info.UUID]; ok {
			return &Error{
				Kind:   ErrDuplicateHost,
				Host:   other.Name,
				Detail: fmt.Sprintf("hosts %q and %q are the same host (UUID %s)", other.Name, a.Host.Name, a.Info.UUID),
				Remedy: "Remove one of the two entries, or give each host its own host_uuid in libvirtd.conf.",
			}
		}

		seen[a.Info.UUID] = a.Host
	}

	return nil
}

// ReadVM reads the VM from the host again and stores the result in the host's view.
func (inv *Inventory) ReadVM(ctx context.Context, h *Host, id string) (*VM, error) {
	info, err := h.Conn.Info(ctx)
	if err != nil {
		return nil, err
	}

	d, err := h.Conn.Domain(ctx, id)
	if err != nil {
		return nil, err
	}

	h.Remember(id, d)

	return NewVM(Reply{Host: h, Info: info, Domain: h.entryOf(*d)})
}

// Refresh reads the VM from its host again, and keeps what the other hosts reported about it before.
func (inv *Inventory) Refresh(ctx context.Context, vm *VM) (*VM, error) {
	now, err := inv.ReadVM(ctx, vm.On, vm.UUID)
	if err != nil {
		return nil, err
	}

	now.StaleHosts, now.twins, now.SilentHosts, now.asked = vm.StaleHosts, vm.twins, vm.SilentHosts, vm.asked
	now.sent, now.forgot, now.TriedVolumes = vm.sent, vm.forgot, vm.TriedVolumes
	now.SetPeers(vm.Peers)

	return now, nil
}

// ReplyOf returns the host's reply in the snapshot.
func (inv *Inventory) ReplyOf(ctx context.Context, h *Host) (Reply, error) {
	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return Reply{}, err
	}

	return Reply{Host: h, View: v, Info: v.Info, Err: v.Err}, v.Err
}

// LastReplyOf returns what the host reported last, however long ago; if it hasn't, it is queried. It has what this run
// has changed since.
func (inv *Inventory) LastReplyOf(ctx context.Context, h *Host) (Reply, error) {
	h.mu.Lock()
	v := h.view
	h.mu.Unlock()

	if v == nil || v.Err != nil {
		return inv.ReplyOf(ctx, h)
	}

	return Reply{Host: h, View: v, Info: v.Info}, nil
}

// TypeFor returns the domain type for a VM that declares none.
func (a Reply) TypeFor(s domain.Spec, defaultType string) string {
	if t := cmp.Or(s.Type, defaultType); t != "" {
		return t
	}

	arch := cmp.Or(s.Arch, a.Info.Arch)

	for _, g := range a.Info.Guests {
		if g.Arch != arch {
			continue
		}

		for _, t := range []string{"kvm", "qemu"} {
			if slices.Contains(g.DomainTypes, t) {
				return t
			}
		}

		if len(g.DomainTypes) > 0 {
			return g.DomainTypes[0]
		}
	}

	return "qemu"
}
