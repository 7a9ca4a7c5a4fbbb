package observe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// Sample has the statistics of a VM on one host. VM identifies the VM; its state is that of the statistics.
type Sample struct {
	VM    *inventory.VM
	Stats stats.Sample
	// Evictable says whether draining its host would succeed for the VM, as far as one reading of each host tells. It
	// is false if the VM's rule only allows moving it live, and something in the VM blocks that or one of its disks is
	// a file that stays. It is nil if the VM is off, the host's policies can't be read, or JudgeEvictable was not
	// called.
	Evictable *bool
}

// HostSamples are the samples of all VMs of one host.
type HostSamples struct {
	VMs []Sample

	// view is the host as it was sampled. It is nil if the host didn't answer.
	view *inventory.View
	// record is the host's record. Its host is unset if the host didn't answer.
	record records.Recording
	// private are the networks that are local to the host.
	private map[string]bool
}

// FindByLabels returns the VMs that have all of the labels, ordered by name. If a host doesn't answer, which may have
// more of them, or decides where one of them is, FindByLabels returns ErrUnreachable as well, and the VMs that it
// found.
func (ob *Observer) FindByLabels(ctx context.Context, labels map[string]string) ([]*inventory.VM, error) {
	answers, err := ob.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	uuids := map[string]bool{}

	var silent []error

	for _, a := range answers {
		if a.Err != nil {
			silent = append(silent, inventory.Unreachable(a, "", "VMs with these labels may be there"))
		}

		if a.View == nil {
			continue
		}

		for uuid, e := range a.View.Domains {
			if d := e.Parse().Definition(); d != nil && policy.HasLabels(d.Metadata().Labels, labels) {
				uuids[uuid] = true
			}
		}
	}

	found := make([]*inventory.VM, 0, len(uuids))

	for uuid := range uuids {
		vm, err := ob.hosts.Find(ctx, uuid, inventory.LastKnown{})
		if inventory.IsNotFound(err) {
			continue // It was removed since.
		}

		if errors.Is(err, inventory.ErrUnreachable) {
			silent = append(silent, err)

			continue
		}

		if err != nil {
			return nil, err
		}

		found = append(found, vm)
	}

	slices.SortFunc(found, func(a, b *inventory.VM) int {
		return strings.Compare(a.Name+"\x00"+a.UUID, b.Name+"\x00"+b.UUID)
	})

	return found, joined(silent)
}

// joined returns one error as it is, so that it keeps what it says to the user, and several of them as one.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}

	return errors.Join(errs...)
}

// Sample reads the statistics of VMs that were found, by their UUIDs. It asks every host once for all of its VMs, and
// all hosts at the same time. A VM that left its host since it was found is missing. If hosts don't answer any more,
// Sample returns ErrUnreachable as well, and the samples of the others.
func (ob *Observer) Sample(ctx context.Context, vms []*inventory.VM) (map[string]*stats.Sample, error) {
	byHost := map[*inventory.Host][]string{}
	known := map[string]*inventory.VM{}

	for _, vm := range vms {
		byHost[vm.On] = append(byHost[vm.On], vm.UUID)
		known[vm.UUID] = vm
	}

	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		errs    []error
		samples = map[string]*stats.Sample{}
	)

	for h, uuids := range byHost {
		wg.Go(func() {
			all, err := h.Conn.Stats(ctx, stats.Groups, uuids...)
			at := time.Now()

			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				errs = append(errs, err)
			}

			for _, d := range all {
				s := stats.New(d, at)
				s.SetKeys(known[d.UUID].Entry.DeviceKeys())
				samples[d.UUID] = &s
			}
		})
	}

	wg.Wait()

	if slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, inventory.ErrUnreachable) }) {
		return nil, joined(errs)
	}

	return samples, joined(errs)
}

// RefreshMarks makes the next HostSample have what a drain wrote on a host: the metadata of these VMs, of which an
// event told, and the host's record.
func (ob *Observer) RefreshMarks(ctx context.Context, name string, uuids []string) {
	if h, err := ob.hosts.AskedHost(name); err == nil {
		ob.hosts.RefreshVMs(ctx, name, uuids)
		h.ForgetRecord()
	}
}

// HostSample reads the statistics of all VMs of one host in two calls. It takes VMs and policies from the host's view,
// which it reads again when it is older than a minute or lacks a VM. It also reads the record of a cordoned host, which
// changes while it is drained.
func (ob *Observer) HostSample(ctx context.Context, name string) (HostSamples, error) {
	h, err := ob.hosts.AskedHost(name)
	if err != nil {
		return HostSamples{}, err
	}

	all, err := h.Conn.Stats(ctx, stats.Groups)
	if err != nil {
		return HostSamples{}, err
	}

	at := time.Now()

	h.ForgetCordon()

	v, err := ob.hosts.ViewWith(ctx, h, all)
	if err != nil {
		return HostSamples{}, err
	}

	samples := HostSamples{VMs: make([]Sample, 0, len(all)), record: records.Recording{Host: h}}
	samples.record.Record, samples.record.Err = inventory.Reply{Host: h, View: v}.RecordOf(ctx)
	samples.view = v.With(make(map[string]*inventory.Entry, len(all)))

	samples.private = h.OwnNetworks(ctx)

	for _, d := range all {
		e := v.Domains[d.UUID]
		if e == nil {
			continue // It arrived or left in this moment.
		}

		e = e.In(d.State, d.Reason)
		samples.view.Domains[d.UUID] = e

		vm, err := inventory.NewVM(inventory.Reply{Host: h, Info: v.Info, Domain: e})
		if err != nil {
			ob.log.WarnContext(ctx, "VM left out of the statistics", "host", h.Name, "error", err.Error())

			continue
		}

		s := stats.New(d, at)
		s.SetKeys(e.DeviceKeys())

		samples.VMs = append(samples.VMs, Sample{VM: vm, Stats: s})
	}

	return samples, nil
}
