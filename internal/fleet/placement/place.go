package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// ErrNoHost means that no host can run the VM.
var ErrNoHost = errors.New("no host can take the VM")

// candidate is one host that is considered for a VM.
type candidate struct {
	inventory.Reply

	wish     Desired             // with the devices that this host would give the VM
	problems []inventory.Problem // why the host can't run the VM; empty if it can
	doubts   []inventory.Problem // what may be wrong on the host, for warnings
	free     uint64              // bytes that may still be committed
	resting  uint64              // bytes that VMs that are off would need there
	crowded  bool                // the host has VMs that this one avoids if possible
	disputed int                 // CPUs that this VM and VMs there are pinned to
}

// Placed is a host that has room for a new VM.
type Placed struct {
	Host *inventory.Host
	// Wish is the configuration that the VM gets there, with the host's devices that it requests by class.
	Wish Desired
	// Defined ends the reservation. Release ends it too, and lets this run drain the host.
	Defined, Release func()
}

// Place chooses a host for a new VM and reserves its memory there. The reservation also keeps other runs from placing
// VMs there, until Defined is called. The caller calls Defined after the VM is defined on the host. Until Release, this
// run doesn't begin to drain the host.
func (p *Planner) Place(ctx context.Context, d Desired) (*Placed, error) {
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
func (p *Planner) arriveOn(ctx context.Context, h *inventory.Host, d Desired) (*Placed, error) {
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
func (p *Planner) placeOn(ctx context.Context, h *inventory.Host, d Desired) (*Placed, error) {
	unlock, err := p.lockPlacing(ctx, h)
	if err != nil {
		return nil, err
	}

	// While this run holds the lock, no other run can change what the host reports; if the VM no longer fits, try another
	// host.
	wish, err := p.reserve(ctx, h, d)
	if err != nil || wish == nil {
		unlock()

		return nil, err
	}

	return &Placed{Host: h, Wish: *wish, Defined: sync.OnceFunc(func() {
		p.releaseReservation(h, d.Spec.Name)
		unlock()
	})}, nil
}

// choose returns the best host that was not tried yet. Until endChoice is called, the VM counts as expected there.
func (p *Planner) choose(ctx context.Context, d Desired, tried map[string]bool) (*inventory.Host, error) {
	candidates, err := p.candidates(ctx, d)
	if err != nil {
		return nil, err
	}

	if d.Metadata.Host == "" { // if the host is given, the start of the VM reports missing files
		p.judgeFiles(ctx, candidates, d)
	}

	if h := p.pick(candidates, d, tried); h != nil {
		return h, nil
	}

	return nil, noHost(d, candidates)
}

// pick returns the best candidate that was not tried yet, and records that the VM is expected there; nil if there is
// none. VMs that are placed at the same time count each other.
func (p *Planner) pick(candidates []candidate, d Desired, tried map[string]bool) *inventory.Host {
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
	p.noteChoice(h, d.Spec.Name, reservationFor(d.Stamp(), d.memoryOn(h), domain.HostUse{}))

	return h
}

// weigh sets how much room the host has, and how crowded it is. The caller holds the reservations' mutex.
func (c *candidate) weigh(p *Planner, d Desired) {
	c.free = p.free(c.Reply, d.Replaces)
	c.resting = c.ShutoffMemory(d.Replaces) + p.expectedMemory(c.Host, d.Spec.Name)
	c.disputed = p.disputedCPUs(c.Reply, d)

	if away := d.Placement.AntiAffinity; away != nil {
		me := evacuation.Neighbour{Name: d.Spec.Name, Avoids: away.Labels}
		c.crowded = p.conflict(c.Reply, me, d.Replaces) != "" || p.expectsConflict(c.Host, me)
	}
}

// reserve returns the configuration that the VM gets on the host, or nil if the VM does not fit there.
func (p *Planner) reserve(ctx context.Context, h *inventory.Host, d Desired) (*Desired, error) {
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

		r := reservationFor(d.Stamp(), d.memoryOn(h), c.wish.hostUse())
		r.defined, r.pools = c.wish.Spec.HostUse(), d.poolDemands(ctx, h)

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

// candidates checks every host for a new VM. It returns the hosts that fit first, those with more free memory before
// the others, then by name.
func (p *Planner) candidates(ctx context.Context, d Desired) ([]candidate, error) {
	answers, err := p.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	all := make([]candidate, len(answers))

	var wg sync.WaitGroup
	for i, a := range answers {
		wg.Go(func() { all[i] = p.judge(ctx, a, d) })
	}

	wg.Wait()
	sortCandidates(all)

	return all, nil
}

// judge checks whether one host can run the VM, and why not.
func (p *Planner) judge(ctx context.Context, a inventory.Reply, d Desired) candidate {
	c := candidate{Reply: a, wish: d}
	if a.Info != nil {
		d.Spec.Values = d.Spec.Values.Complete(nil, cmp.Or(d.Spec.Arch, a.Info.Arch))
	}

	pinned := d.Metadata.Host != ""

	switch {
	case pinned && a.Host.Name != d.Metadata.Host:
		c.refuse("host", "the VM is pinned to host %q", d.Metadata.Host)

		return c
	case a.Fenced():
		c.refuse("host", "it is fenced")

		return c
	case a.Err != nil:
		c.refuse("host", "it does not answer: %v", inventory.WithoutHost(a.Err))

		return c
	case !pinned && a.Host.Config.Unschedulable:
		c.refuse("host", "it is not schedulable")
	case !pinned && !policy.HasLabels(a.Host.Config.Labels, d.Placement.HostLabels):
		c.refuse("placement.host_labels", "it has not all of the labels %s", labelText(d.Placement.HostLabels))
	}

	d.Spec = c.judgeDevices(ctx, p, d)

	c.judgeCordon(ctx)
	c.problems = append(c.problems, fitsHypervisor(a, d.Spec, p.defaultType)...)
	c.problems = append(c.problems, fitsVersions(a, d.Spec)...)
	c.problems = append(c.problems, fitsKept(a, d.Metadata)...)
	c.judgeMemory(p, d)
	c.judgeAffinity(p, d)
	c.problems = append(c.problems, p.fitsHostUse(ctx, a, d.Spec.Name, d.hostUse(), d.Replaces)...)
	c.problems = append(c.problems, p.fitsSurroundings(ctx, a, d, nil)...)
	c.problems = append(c.problems, fitsSecrets(ctx, a, d)...)

	return c
}

func (c *candidate) refuse(attribute, format string, args ...any) {
	c.problems = append(c.problems, inventory.Problem{Attribute: attribute, Detail: fmt.Sprintf(format, args...)})
}

// judgeDevices assigns the devices that the VM requests by class, and returns the VM's spec with them.
func (c *candidate) judgeDevices(ctx context.Context, p *Planner, d Desired) domain.Spec {
	spec, short := p.assignDevices(ctx, c.Reply, deviceRequest{
		spec: d.Spec, name: d.Spec.Name, starts: status.StartsOnCreate(d.Strategy()), leaving: d.Replaces,
	})

	c.wish.Spec.HostDevices = spec.HostDevices
	c.problems = append(c.problems, shortageProblems(short)...)

	return spec
}

func (c *candidate) judgeMemory(p *Planner, d Desired) {
	p.reservations.mu.Lock()
	c.weigh(p, d)
	p.reservations.mu.Unlock()

	if wanted := d.memoryOn(c.Host); wanted > c.free {
		c.refuse("memory.size", "it needs %s of memory, including QEMU's own; %s of %s are free",
			domain.FormatSize(wanted), domain.FormatSize(c.free), domain.FormatSize(c.MemoryLimit()))
	}
}

func (c *candidate) judgeAffinity(p *Planner, d Desired) {
	p.reservations.mu.Lock()
	defer p.reservations.mu.Unlock()

	me := evacuation.Neighbour{Name: d.Spec.Name}

	if away := d.Placement.AntiAffinity; away != nil {
		me.Avoids = away.Labels

		if other := p.conflict(c.Reply, me, d.Replaces); other != "" && away.Required {
			c.refuse("placement.anti_affinity", "it has VM %q with the labels %s", other, labelText(away.Labels))
		}
	}

	me.Labels, me.Avoids = d.Metadata.Labels, nil
	if other := p.conflict(c.Reply, me, d.Replaces); other != "" {
		c.refuse("labels", "it has VM %q, which must not share a host with one that has the labels %s", other,
			labelText(me.Labels))
	}
}

// fitsHypervisor checks whether the host's hypervisor can run the VM.
func fitsHypervisor(a inventory.Reply, s domain.Spec, defaultType string) []inventory.Problem {
	if len(a.Info.Guests) == 0 {
		return nil
	}

	arch := cmp.Or(s.Arch, a.Info.Arch)
	wantType := a.TypeFor(s, defaultType)

	for _, g := range a.Info.Guests {
		if g.Arch != arch {
			continue
		}

		var problems []inventory.Problem
		if !slices.Contains(g.DomainTypes, wantType) {
			problems = append(problems, inventory.Problem{
				Attribute: "type",
				Detail: fmt.Sprintf("it can't run domains of type %q for %s, only %s", wantType, arch,
					inventory.QuoteList(g.DomainTypes)),
			})
		}

		if s.Machine != "" && !knowsMachineType(g.MachineTypes, s.Machine) {
			problems = append(problems, lacksMachineType(a, s.Machine, arch))
		}

		problems = append(problems, fitsMachineType(a, s)...)

		if n := s.CPU.VCPUs; n != nil && wantType == "kvm" && *n > a.Info.CPUs {
			problems = append(problems, inventory.Problem{
				Attribute: "cpu.vcpus", Detail: fmt.Sprintf("%d vCPUs are required, it has %d CPUs", *n, a.Info.CPUs),
			})
		}

		return problems
	}

	return []inventory.Problem{{Attribute: "arch", Detail: fmt.Sprintf("it can't run guests of architecture %q", arch)}}
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

func labelText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}

	slices.Sort(pairs)

	return strings.Join(pairs, ", ")
}
