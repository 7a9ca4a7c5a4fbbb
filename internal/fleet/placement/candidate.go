package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

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

	growth       map[string]uint64      // what the VM's new disks may grow to, by storage pool
	promises     map[string]poolPromise // by storage pool of the VM's new disks; nil if there is no choice
	overpromised bool                   // what the volumes of such a pool may grow to exceeds the pool
}

// candidates checks every host for a new VM. It returns the hosts that fit first, in the order of sortCandidates.
func (p *Scheduler) candidates(ctx context.Context, d Desired) ([]candidate, error) {
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

	if d.Metadata.Host == "" {
		p.judgePromises(ctx, all, d)
	}

	sortCandidates(all)

	return all, nil
}

// judge checks whether one host can run the VM, and why not.
func (p *Scheduler) judge(ctx context.Context, a inventory.Reply, d Desired) candidate {
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
		c.refuse("placement.host_labels", "it lacks labels %s",
			labelText(missingLabels(a.Host.Config.Labels, d.Placement.HostLabels)))
	}

	d.Spec = c.judgeDevices(ctx, p, d)

	c.judgeCordon(ctx)
	c.problems = append(c.problems, fitsHypervisor(a, d.Spec, p.defaultType)...)
	c.problems = append(c.problems, fitsVersions(a, d.Spec)...)
	c.problems = append(c.problems, fitsKept(a, d.Metadata)...)
	c.problems = append(c.problems, d.fitsNVRAM(a, d.Replaces)...)
	c.judgeMemory(p, d)
	c.judgeAffinity(p, d)
	c.problems = append(c.problems, p.fitsHostUse(ctx, a, d.Spec.Name, d.hostUseOn(a.Host.Name), d.Replaces)...)
	c.problems = append(c.problems, p.fitsSurroundings(ctx, a, d, nil)...)
	c.problems = append(c.problems, fitsArriving(ctx, a, d, d.replacedInPlan())...)
	c.problems = append(c.problems, fitsSecrets(ctx, a, d, nil)...)
	c.problems = append(c.problems, p.fitsControllers(ctx, a, d, nil)...)

	return c
}

func (c *candidate) refuse(attribute, format string, args ...any) {
	c.problems = append(c.problems, inventory.Problem{Attribute: attribute, Detail: fmt.Sprintf(format, args...)})
}

// judgeDevices assigns the devices that the VM requests by class, and returns the VM's spec with them.
func (c *candidate) judgeDevices(ctx context.Context, p *Scheduler, d Desired) domain.Spec {
	spec, short := p.assignDevices(ctx, c.Reply, deviceRequest{
		spec: d.Spec, name: d.Spec.Name, starts: status.StartsOnCreate(d.Strategy()), leaving: d.Replaces,
	})

	c.wish.Spec.HostDevices = spec.HostDevices
	c.problems = append(c.problems, shortageProblems(short)...)

	return spec
}

func (c *candidate) judgeMemory(p *Scheduler, d Desired) {
	p.reservations.mu.Lock()
	c.weigh(p, d)
	p.reservations.mu.Unlock()

	if wanted := d.memoryOn(c.Host); wanted > c.free {
		c.refuse("memory.size", "it needs %s of memory, including QEMU's own; %s of %s are free",
			domain.FormatSize(wanted), domain.FormatSize(c.free), domain.FormatSize(c.MemoryLimit()))
	}
}

func (c *candidate) judgeAffinity(p *Scheduler, d Desired) {
	p.reservations.mu.Lock()
	defer p.reservations.mu.Unlock()

	me := evacuation.Neighbour{Name: d.Spec.Name}

	if away := d.Placement.AntiAffinity; away != nil {
		me.Avoids = away.Labels

		if other := p.conflict(c.Reply, me, d.Replaces); other != "" && away.Required {
			c.refuse("placement.anti_affinity", "it has VM %q with the labels %s", other, labelText(away.Labels))

			return // VMs of one group avoid each other: the other one's reason would be the same again.
		}
	}

	me.Labels, me.Avoids = d.Metadata.Labels, nil
	if other := p.conflict(c.Reply, me, d.Replaces); other != "" {
		c.refuse("labels", "it has VM %q, which must not share a host with one that has the labels %s", other,
			labelText(me.Labels))
	}
}

// weigh sets how much room the host has, and how crowded it is. The caller holds the reservations' mutex.
func (c *candidate) weigh(p *Scheduler, d Desired) {
	c.free = p.free(c.Reply, d.Replaces)
	c.resting = c.ShutoffMemory(d.Replaces) + p.expectedMemory(c.Host, d.Spec.Name)
	c.disputed = p.disputedCPUs(c.Reply, d)
	c.overpromised = p.exceedsPromises(c, d.Spec.Name)

	if away := d.Placement.AntiAffinity; away != nil {
		me := evacuation.Neighbour{Name: d.Spec.Name, Avoids: away.Labels}
		c.crowded = p.conflict(c.Reply, me, d.Replaces) != "" || p.expectsConflict(c.Host, me)
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
			problems = append(problems, lacksMachineType(a, s.Machine, arch, g.MachineTypes))
		}

		problems = append(problems, fitsMachineType(a, s)...)

		if n := s.CPU.VCPUs; n != nil && wantType == "kvm" && *n > a.Info.CPUs {
			problems = append(problems, inventory.Problem{
				Attribute: "cpu.vcpus", Detail: fmt.Sprintf("%d vCPUs are required, it has %d CPUs", *n, a.Info.CPUs),
			})
		}

		return problems
	}

	var known []string
	for _, g := range a.Info.Guests {
		known = append(known, g.Arch)
	}

	return []inventory.Problem{{
		Attribute: "arch",
		Detail:    fmt.Sprintf("it can't run guests of architecture %q, only of %s", arch, inventory.QuoteList(known)),
	}}
}

// fitsStart checks whether the host's hypervisor has the type and the machine type of a VM that was off and is started.
// The definition of a VM that is off may be older than its host.
func (p *Scheduler) fitsStart(a inventory.Reply, vm *inventory.VM, d Desired) []inventory.Problem {
	if !d.starts(vm) {
		return nil
	}

	have := vm.DeclaredSpec()

	return fitsHypervisor(a, domain.Spec{
		Type: cmp.Or(d.Spec.Type, have.Type), Arch: cmp.Or(d.Spec.Arch, have.Arch),
		Machine: cmp.Or(d.Spec.Machine, have.Machine),
	}, p.defaultType)
}
