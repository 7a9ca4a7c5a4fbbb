package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// deviceRequest is a VM that asks a host for devices by class.
type deviceRequest struct {
	// spec is what is declared of it, and name its name on the host: what it has there already isn't taken.
	spec domain.Spec
	name string
	// have are the devices that it has, which it keeps where they are of the class.
	have map[string]domain.Row
	// starts says that it runs on the host. One that stays off has a device that others may have, too.
	starts bool
	// leaving is the UUID of a VM that will be gone by then.
	leaving string
}

// deviceShortage is a device that a host can't give.
type deviceShortage struct {
	domain.Problem

	// taken says that other VMs have what there is.
	taken bool
}

// assignDevices gives the request's spec the devices of the host that it asks for by class.
func (p *Planner) assignDevices(
	ctx context.Context, a inventory.Reply, q deviceRequest,
) (domain.Spec, []deviceShortage) {
	spec := q.spec.Unassigned()

	classes := spec.DeviceClasses()
	if len(classes) == 0 {
		return q.spec, nil
	}

	c := p.deviceChoice(ctx, a, q)
	keys := slices.Sorted(maps.Keys(classes))

	for _, key := range keys {
		if has := q.have[key].HostDevice(); slices.Contains(a.Host.Config.Devices[classes[key]], has) && !c.own[has] {
			c.assign(spec, key, has)
		}
	}

	var short []deviceShortage

	for _, key := range keys {
		if spec.HostDevices[key].HostDevice() != (domain.HostPart{}) {
			continue
		}

		if part, ok := c.pick(a.Host.Config.Devices[classes[key]]); ok {
			c.assign(spec, key, part)
		} else {
			short = append(short, c.shortage(key, classes[key], a.Host.Config.Devices[classes[key]]))
		}
	}

	return spec, short
}

// deviceChoice is what decides which device of a class a VM gets.
type deviceChoice struct {
	lacks   func(domain.HostPart) bool
	holders map[domain.HostPart]string // the VM that has it, or will when the host starts it
	resting map[domain.HostPart]bool   // a VM that is off is defined with it
	own     map[domain.HostPart]bool   // this VM has it already
	starts  bool
}

func (p *Planner) deviceChoice(ctx context.Context, a inventory.Reply, q deviceRequest) deviceChoice {
	c := deviceChoice{
		lacks:   func(part domain.HostPart) bool { return a.Host.LacksDevice(ctx, part) },
		holders: map[domain.HostPart]string{}, resting: map[domain.HostPart]bool{}, own: map[domain.HostPart]bool{},
		starts: q.starts,
	}

	p.reservations.mu.Lock()
	for name, use := range uses(p.residents(a, q.leaving), q.name) {
		for part := range use.Alone {
			c.holders[part] = name
		}
	}

	for name, r := range p.reservations.byHost[a.Host.Name] {
		if name != q.name {
			for part := range r.defined.Alone {
				c.resting[part] = true
			}
		}
	}
	p.reservations.mu.Unlock()

	for _, e := range a.View.Domains {
		if e.Name != q.name {
			for part := range e.DefinedUse().Alone {
				c.resting[part] = true
			}
		}
	}

	for part := range q.spec.Unassigned().HostUse().Alone {
		c.own[part] = true
	}

	return c
}

// chooseDevices keeps other VMs of this run from being given devices of the host by class until chosen is called, if
// the VM asks for some: each has to see what those before it were given. No reservation refuses that to VMs that are
// off.
func (p *Planner) chooseDevices(ctx context.Context, h *inventory.Host, spec *domain.Spec) (chosen func(), err error) {
	if spec == nil || len(spec.DeviceClasses()) == 0 {
		return func() {}, nil
	}

	return p.reservations.choosing.Lock(ctx, h.Name)
}

func (c deviceChoice) assign(spec domain.Spec, key string, part domain.HostPart) {
	spec.HostDevices[key] = part.Assign(spec.HostDevices[key])
	c.own[part] = true
}

// pick is the first device that no VM has, best one that no VM is defined with either.
func (c deviceChoice) pick(class []domain.HostPart) (domain.HostPart, bool) {
	for _, free := range []func(domain.HostPart) bool{
		func(part domain.HostPart) bool { return c.holders[part] == "" && !c.resting[part] },
		func(part domain.HostPart) bool { return c.holders[part] == "" },
		func(domain.HostPart) bool { return !c.starts },
	} {
		for _, part := range class {
			if !c.own[part] && free(part) && !c.lacks(part) {
				return part, true
			}
		}
	}

	return domain.HostPart{}, false
}

// shortage says why no device of a class can be given.
func (c deviceChoice) shortage(key, class string, parts []domain.HostPart) deviceShortage {
	short := deviceShortage{Problem: domain.Problem{
		Path: domain.HostDevicePath(key) + ".class", Message: fmt.Sprintf("has no devices of class %q", class),
	}}

	var reasons []string

	for _, part := range parts {
		why := "is given to VM " + fmt.Sprintf("%q", c.holders[part])

		switch {
		case c.own[part]:
			why = "is another device of this VM"
		case c.lacks(part):
			why = "isn't there"
		default:
			short.taken = true
		}

		reasons = append(reasons, part.String()+" "+why)
	}

	if len(reasons) > 0 {
		short.Message = fmt.Sprintf("has no free device of class %q: %s", class, strings.Join(reasons, ", "))
	}

	return short
}

// shortageProblems say of a host which devices it can't give.
func shortageProblems(short []deviceShortage) []inventory.Problem {
	problems := make([]domain.Problem, len(short))
	for i, s := range short {
		problems[i] = s.Problem
	}

	return hostProblems(problems)
}

// requestOf is what a wish asks for a VM that is on the host.
func (d Desired) requestOf(vm *inventory.VM) deviceRequest {
	return deviceRequest{
		spec: d.Spec, name: vm.Name, have: vm.DeclaredSpec().HostDevices, starts: d.runsOn(vm), leaving: vm.UUID,
	}
}

// changedDevices gives the wish for a VM the devices of its host that it asks for by class, and says which ones there
// aren't. What another host has for it, CheckMove says.
func (p *Planner) changedDevices(
	ctx context.Context, on *inventory.Host, vm *inventory.VM, d Desired,
) (Desired, []inventory.Problem) {
	if on != vm.On || len(d.Spec.DeviceClasses()) == 0 {
		return d, nil
	}

	a, err := p.hosts.ReplyOf(ctx, on)
	if err != nil {
		return d, nil // What is free is then for the apply to say.
	}

	spec, short := p.assignDevices(ctx, a, d.requestOf(vm))
	d.Spec = spec

	return d, shortageProblems(short)
}

// fresh are the devices that an assignment adds to what the VM has. One that stays off takes nothing yet: it is only
// defined with them.
func (q deviceRequest) fresh(assigned domain.Spec) (taken, defined domain.HostUse) {
	use := domain.HostUse{Alone: map[domain.HostPart]string{}}

	for key := range assigned.DeviceClasses() {
		if part := assigned.HostDevices[key].HostDevice(); part != q.have[key].HostDevice() {
			use.Alone[part] = domain.HostDevicePath(key) + ".class"
		}
	}

	if q.starts {
		return use, use
	}

	return domain.HostUse{}, use
}
