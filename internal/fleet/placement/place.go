package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// ErrNoHost means that no host can run the VM.
var ErrNoHost = errors.New("no host can take the VM")

// Placed is a host that has room for a new VM.
type Placed struct {
	Host *inventory.Host
	// Wish is the configuration that the VM gets there, with the host's devices that it requests by class.
	Wish Desired
	// Lock keeps other runs from placing VMs on the host until Defined is called. The VM is defined with a context of
	// Lock.With: once another run has taken the lock over, the room may be gone.
	Lock *lease.Held
	// Defined ends the reservation. Release ends it too, and lets this run drain the host.
	Defined, Release func()
}

// Place chooses a host for a new VM and reserves its memory there. The reservation also keeps other runs from placing
// VMs there, until Defined is called. The caller calls Defined after the VM is defined on the host. Until Release, this
// run doesn't begin to drain the host.
func (p *Scheduler) Place(ctx context.Context, d Desired) (*Placed, error) {
	p.freshenPools(ctx, d)

	for tried := map[string]bool{}; ; {
		h, err := p.choose(ctx, d, tried)
		if err != nil {
			return nil, err
		}

		placed, err := p.arriveOn(ctx, h, d)
		p.endChoice(h, d.Spec.Name)

		if placed != nil || err != nil {
			return placed, err
		}

		tried[h.Name] = true
	}
}

// arriveOn is placeOn, and keeps this run from draining the host.
func (p *Scheduler) arriveOn(ctx context.Context, h *inventory.Host, d Desired) (*Placed, error) {
	arrived, err := p.beginArrival(ctx, h)
	if err != nil {
		return nil, err
	}

	placed, err := p.placeOn(ctx, h, d)
	if placed == nil {
		arrived()

		return nil, err
	}

	placed.Release = func() { placed.Defined(); arrived() }

	return placed, nil
}

// placeOn reserves room on the host; it returns nil if the VM does not fit there.
func (p *Scheduler) placeOn(ctx context.Context, h *inventory.Host, d Desired) (*Placed, error) {
	lock, err := p.joinPlacing(ctx, h)
	if err != nil {
		return nil, err
	}

	held, end := lock.lease.With(ctx)
	defer end()

	// While this run holds the lock, no other run can change what the host reports; if the VM no longer fits, try another
	// host.
	wish, err := p.reserve(held, h, d)
	if err == nil && wish == nil {
		err = context.Cause(held) // Without the lock, nothing says that it doesn't fit.
	}

	if err != nil || wish == nil {
		p.leavePlacing(h, lock)

		return nil, err
	}

	return &Placed{Host: h, Wish: *wish, Lock: lock.lease, Defined: sync.OnceFunc(func() {
		p.releaseReservation(h, d.Spec.Name)
		p.leavePlacing(h, lock)
	})}, nil
}

// choose returns the best host that was not tried yet. Until endChoice is called, the VM counts as expected there.
func (p *Scheduler) choose(ctx context.Context, d Desired, tried map[string]bool) (*inventory.Host, error) {
	candidates, err := p.candidates(ctx, d)
	if err != nil {
		return nil, err
	}

	if d.Metadata.Host == "" { // if the host is given, the start of the VM reports missing files
		p.judgeFiles(ctx, candidates, d)

		if unclear := p.copiesDiffer(ctx, candidates, d); unclear != nil {
			return nil, unclear.Failed(d.Spec.Name, "", ErrNoHost)
		}
	}

	document, _ := d.definable(nil) // If it is impossible, the create says why.

	for {
		c := p.pick(candidates, d, tried)
		if c == nil {
			return nil, noHost(d, candidates)
		}

		if d.Metadata.Host != "" { // Its libvirt says what it refuses.
			return c.Host, nil
		}

		// The plan succeeds if one host accepts the definition, and hosts differ: in their CPUs, for example.
		err := p.try(ctx, d, c, document)
		if err == nil && len(c.problems) == 0 {
			return c.Host, nil
		}

		p.endChoice(c.Host, d.Spec.Name)

		switch {
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			c.problems = []inventory.Problem{{Detail: err.Error()}}
		}
	}
}

// pick returns the best candidate that was not tried yet, and records that the VM is expected there; nil if there is
// none. VMs that are placed at the same time count each other.
func (p *Scheduler) pick(candidates []candidate, d Desired, tried map[string]bool) *candidate {
	p.reservations.mu.Lock()
	defer p.reservations.mu.Unlock()

	fit := slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool {
		return len(c.problems) > 0 || tried[c.Host.Name]
	})
	if len(fit) == 0 {
		return nil
	}

	for i := range fit {
		fit[i].weigh(p, d)
	}

	sortCandidates(fit)

	h := fit[0].Host
	r := reservationFor(d.Stamp(), d.memoryOn(h), domain.HostUse{})
	r.growth = fit[0].growth
	p.noteChoice(h, d.Spec.Name, r)

	return &candidates[slices.IndexFunc(candidates, func(c candidate) bool { return c.Host == h })]
}

// reserve returns the configuration that the VM gets on the host, or nil if the VM does not fit there.
func (p *Scheduler) reserve(ctx context.Context, h *inventory.Host, d Desired) (*Desired, error) {
	chosen, err := p.chooseDevices(ctx, h, &d.Spec)
	if err != nil {
		return nil, err
	}
	defer chosen()

	unlock, err := p.lockPools(ctx, h, d)
	if err != nil {
		return nil, err
	}
	defer unlock()

	for {
		v, err := p.hosts.ViewOf(ctx, h)
		if err != nil {
			return nil, err
		}

		c := p.judge(ctx, inventory.Reply{Host: h, View: v, Info: v.Info, Err: v.Err}, d)
		if len(c.problems) > 0 {
			return nil, nil //nolint:nilnil // absence is an answer, not an error
		}

		// A reservation may have become a VM meanwhile: then neither its disks nor those of the VM were counted.
		if !h.IsLatest(v) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}

			continue
		}

		r := reservationFor(d.Stamp(), d.memoryOn(h), c.wish.hostUse())
		r.defined, r.pools, r.growth = c.wish.Spec.HostUse(), d.poolDemands(ctx, h), d.newGrowth(ctx, h)

		refused, err := p.addReservation(ctx, h, d.Spec.Name, r)

		switch {
		case err != nil:
			return nil, err
		case len(refused) == 0:
			return &c.wish, nil
		case len(d.Spec.DeviceClasses()) == 0:
			return nil, nil //nolint:nilnil // as above
		}
		// Another VM of this run was given the device in between. If there is no other device, that is a problem now.
	}
}

// noHost returns the error why no host can run the VM.
func noHost(d Desired, candidates []candidate) error {
	var b strings.Builder

	slices.SortFunc(candidates, func(x, y candidate) int { return inventory.ByHostName(x.Host, y.Host) })

	for _, c := range candidates {
		for _, p := range c.problems {
			if d.Metadata.Host != "" && c.Host.Name != d.Metadata.Host {
				continue
			}

			fmt.Fprintf(&b, "\n  - host %q: %s", c.Host.Name, p.Detail)
		}
	}

	return &inventory.Error{VM: d.Spec.Name, Kind: ErrNoHost, Detail: "no host can take the VM:" + b.String()}
}

// missingLabels returns the wanted labels that a host doesn't have, or has with another value.
func missingLabels(have, want map[string]string) map[string]string {
	missing := maps.Clone(want)
	maps.DeleteFunc(missing, func(k, v string) bool {
		return policy.HasLabels(have, map[string]string{k: v})
	})

	return missing
}

func labelText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}

	slices.Sort(pairs)

	return strings.Join(pairs, ", ")
}
