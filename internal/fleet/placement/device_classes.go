package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// deviceRequest is a VM's request to a host for devices by class.
type deviceRequest struct {
	// spec is the VM's declared configuration, and name its name on the host: its own devices there count as free.
	spec domain.Spec
	name string
	// have are the devices that the VM has. It keeps those that belong to the class.
	have map[string]domain.Row
	// starts says that the VM runs on the host. A VM that stays off may be defined with a device that another VM has.
	starts bool
	// leaving is the UUID of a VM that will be gone when the devices are assigned.
	leaving string
}

// assignDevices returns the request's spec with the host's devices that it requests by class.
func (p *Scheduler) assignDevices(
	ctx context.Context, a inventory.Reply, q deviceRequest,
) (domain.Spec, []shortage) {
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

	var short []shortage

	for _, key := range keys {
		if spec.HostDevices[key].HostDevice() != (domain.HostPart{}) {
			short = append(short, strayROM(spec, key, classes[key])...)

			continue
		}

		if part, ok := c.pick(a.Host.Config.Devices[classes[key]]); ok {
			c.assign(spec, key, part)
			short = append(short, strayROM(spec, key, classes[key])...)
		} else {
			short = append(short, c.shortage(key, classes[key], a.Host.Config.Devices[classes[key]]))
		}
	}

	return spec, short
}

// strayROM returns a problem if a ROM is declared for a device of a class that turns out not to be a PCI device.
func strayROM(spec domain.Spec, key, class string) []shortage {
	row := spec.HostDevices[key]

	attribute, problem := row.StrayROM()
	if problem == "" {
		return nil
	}

	return []shortage{{
		Problem: domain.Problem{
			Path:    domain.HostDevicePath(key) + "." + attribute,
			Message: fmt.Sprintf("gives %s for class %q. %s", row.HostDevice(), class, problem),
		},
		reason: migration.HostResourcesNotAvailable,
		remedy: "Remove " + attribute + ", or list only pci devices in the class, in hosts.<name>.devices.",
	}}
}

// deviceChoice is the data that decides which device of a class a VM gets.
type deviceChoice struct {
	lacks   func(domain.HostPart) bool
	holders map[domain.HostPart]string // the VM that has the device, or will have it when the host starts the VM
	resting map[domain.HostPart]bool   // a VM that is off is defined with it
	own     map[domain.HostPart]bool   // this VM has it already
	starts  bool
	noIOMMU bool // the host can't give PCI devices to a VM that runs
}

// unusable reports whether the VM couldn't start with a device.
func (c deviceChoice) unusable(part domain.HostPart) bool {
	return c.starts && c.noIOMMU && part.Kind == domain.PCIDevice
}

func (p *Scheduler) deviceChoice(ctx context.Context, a inventory.Reply, q deviceRequest) deviceChoice {
	c := deviceChoice{
		lacks:   func(part domain.HostPart) bool { return a.Host.LacksDevice(ctx, part) },
		holders: map[domain.HostPart]string{}, resting: map[domain.HostPart]bool{}, own: map[domain.HostPart]bool{},
		starts: q.starts, noIOMMU: a.Info != nil && a.Info.LacksIOMMU,
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

	for part, name := range maps.Clone(c.holders) {
		if part.Kind == domain.USBAddress {
			c.holders[domain.HostPart{Kind: domain.USBDevice, ID: a.Host.USBDevices(ctx)[part.ID]}] = name
		}
	}

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

// chooseDevices keeps other VMs of this run from being given the host's devices by class until chosen is called, if the
// VM requests some: each VM has to see what those before it were given. Reservations don't ensure this for VMs that are
// off.
func (p *Scheduler) chooseDevices(
	ctx context.Context, h *inventory.Host, spec *domain.Spec,
) (chosen func(), err error) {
	if spec == nil || len(spec.DeviceClasses()) == 0 {
		return func() {}, nil
	}

	return p.reservations.choosing.Lock(ctx, h.Name)
}

func (c deviceChoice) assign(spec domain.Spec, key string, part domain.HostPart) {
	spec.HostDevices[key] = part.Assign(spec.HostDevices[key])
	c.own[part] = true
}

// pick returns the first device that no VM has. It prefers a device that no VM is defined with either.
func (c deviceChoice) pick(class []domain.HostPart) (domain.HostPart, bool) {
	for _, free := range []func(domain.HostPart) bool{
		func(part domain.HostPart) bool { return c.holders[part] == "" && !c.resting[part] },
		func(part domain.HostPart) bool { return c.holders[part] == "" },
		func(domain.HostPart) bool { return !c.starts },
	} {
		for _, part := range class {
			if !c.own[part] && free(part) && !c.lacks(part) && !c.unusable(part) {
				return part, true
			}
		}
	}

	return domain.HostPart{}, false
}

// shortage describes why no device of a class is available.
func (c deviceChoice) shortage(key, class string, parts []domain.HostPart) shortage {
	short := shortage{Problem: domain.Problem{
		Path: domain.HostDevicePath(key) + ".class", Message: fmt.Sprintf("has no devices of class %q", class),
	}, reason: migration.HostResourcesNotAvailable}

	var reasons []string

	for _, part := range parts {
		why := "is given to VM " + fmt.Sprintf("%q", c.holders[part])

		switch {
		case c.own[part]:
			why = "is another device of this VM"
		case c.lacks(part):
			why = "isn't there"
		case c.holders[part] == "" && c.unusable(part):
			why, short.remedy = "can't be given to a VM, "+migration.NoIOMMU, migration.IOMMURemedy
		default:
			short.reason = migration.HostResourcesTaken
		}

		reasons = append(reasons, part.String()+" "+why)
	}

	if len(reasons) > 0 {
		short.Message = fmt.Sprintf("has no free device of class %q: %s", class, strings.Join(reasons, ", "))
	}

	return short
}

// requestOf returns what the configuration requests for a VM that is on the host.
func (d Desired) requestOf(vm *inventory.VM) deviceRequest {
	return deviceRequest{
		spec: d.Spec, name: vm.Name, have: vm.DeclaredSpec().HostDevices, starts: d.runsOn(vm), leaving: vm.UUID,
	}
}

// changedDevices returns the configuration of a VM with the devices of its host that it requests by class, and a
// problem for each that isn't available. CheckMove reports what is missing on another host.
func (p *Scheduler) changedDevices(
	ctx context.Context, on *inventory.Host, vm *inventory.VM, d Desired,
) (Desired, []inventory.Problem) {
	if on != vm.On || len(d.Spec.DeviceClasses()) == 0 {
		return d, nil
	}

	a, err := p.hosts.ReplyOf(ctx, on)
	if err != nil {
		return d, nil // the apply then reports what isn't free
	}

	spec, short := p.assignDevices(ctx, a, d.requestOf(vm))
	d.Spec = spec

	return d, shortageProblems(short)
}

// fresh returns the devices that an assignment adds to those that the VM has. A VM that stays off doesn't use them yet:
// it is only defined with them.
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
