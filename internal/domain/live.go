package domain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// StepKind says which libvirt call a step is.
type StepKind int

// The kinds of steps.
const (
	// SetVcpus sets the number of virtual CPUs online.
	SetVcpus StepKind = iota + 1
	// SetMemory sets the balloon.
	SetMemory
	// Attach plugs a device in.
	Attach
	// Detach unplugs a device.
	Detach
	// Update changes a device.
	Update
)

// String returns the kind's name.
func (k StepKind) String() string {
	switch k {
	case SetVcpus:
		return "SetVcpus"
	case SetMemory:
		return "SetMemory"
	case Attach:
		return "Attach"
	case Detach:
		return "Detach"
	case Update:
		return "Update"
	default:
		return "unknown"
	}
}

// stepOrder is the order of the calls: what goes leaves its place to what comes, and memory is plugged in before the
// balloon is told to give it.
var stepOrder = []StepKind{Detach, Update, Attach, SetVcpus, SetMemory}

// Step is one call on a running domain.
type Step struct {
	Kind StepKind
	// Path is the attribute the step is for.
	Path string
	// XML is the device of Attach, Detach and Update.
	XML string
	// VCPUs is for SetVcpus, Bytes for SetMemory.
	VCPUs int
	Bytes uint64
}

// LiveSteps returns the calls that bring a running domain to what want declares, as far as that needs no restart:
// exactly the changes that Changes calls live. New devices are taken from persistent, the definition after
// Apply(want), so that both have the same address, name and alias; nil for a transient domain.
func LiveSteps(live, persistent *Definition, want Spec) ([]Step, error) {
	if persistent == nil {
		persistent = live.Clone()
		if err := persistent.Apply(want); err != nil {
			return nil, err
		}
	}
	p := stepper{live: live, persistent: persistent, want: want, have: live.Spec()}
	after := persistent.Spec()
	p.diskKeys = rekeyed(p.have.Disks, diskKeys(p.have.Disks, after.Disks))
	p.nicKeys = rekeyed(p.have.Interfaces, interfaceKeys(p.have.Interfaces, after.Interfaces))
	p.have.Disks = rekey(p.have.Disks, p.diskKeys)
	p.have.Interfaces = rekey(p.have.Interfaces, p.nicKeys)

	for _, c := range classify(p.have, want) {
		if c.Live {
			p.add(c)
		}
	}
	slices.SortStableFunc(p.steps, func(a, b Step) int {
		return cmp.Compare(slices.Index(stepOrder, a.Kind), slices.Index(stepOrder, b.Kind))
	})
	return p.steps, nil
}

// stepper makes steps of live changes.
type stepper struct {
	live, persistent *Definition
	have, want       Spec
	// diskKeys and nicKeys lead from the live definition's own keys to those that the changes use.
	diskKeys, nicKeys map[string]string
	steps             []Step
}

func (p *stepper) add(c change) {
	switch c.step {
	case SetVcpus:
		if to, err := arrange(p.have.CPU, p.want.CPU); err == nil {
			p.step(Step{Kind: SetVcpus, Path: c.Path, VCPUs: to.online})
		}
	case SetMemory:
		p.step(Step{Kind: SetMemory, Path: c.Path, Bytes: *p.want.Memory.Size})
	case Attach, Detach, Update:
		if c.Path == "memory.size" {
			p.plugMemory(c)
			return
		}
		p.device(c)
	}
}

// step notes a step, once: two attributes may take one call.
func (p *stepper) step(s Step) {
	for _, other := range p.steps {
		other.Path = s.Path
		if other == s {
			return
		}
	}
	p.steps = append(p.steps, s)
}

// plugMemory plugs in what is missing, and has the balloon give all there is then.
func (p *stepper) plugMemory(c change) {
	installed := pick(p.have.Memory.Installed, p.have.Memory.Size, 0)
	device := element("memory", "model", "dimm")
	target := add(device, "target")
	add(target, "size", "unit", "KiB").SetText(formatKiB(*p.want.Memory.Size - installed))
	add(target, "node").SetText("0")
	p.step(Step{Kind: Attach, Path: c.Path, XML: render(device)})
	if pick(p.have.Memory.Size, nil, installed) < installed {
		p.step(Step{Kind: SetMemory, Path: c.Path, Bytes: *p.want.Memory.Size})
	}
}

// device makes the step for a disk or an interface.
func (p *stepper) device(c change) {
	k, keys := diskKind, p.diskKeys
	if strings.HasPrefix(c.Path, interfaceKind.path+".") {
		k, keys = interfaceKind, p.nicKeys
	}
	path := k.path + "." + c.key
	switch c.step {
	case Detach:
		if e := find(p.live, k, keys, c.key); e != nil {
			p.step(Step{Kind: Detach, Path: path, XML: render(e)})
		}
	case Update:
		if e := find(p.live, k, keys, p.oldKey(k, c.key)); e != nil {
			p.step(Step{Kind: Update, Path: path, XML: render(p.updated(k, e.Copy(), c.key))})
		}
	case Attach:
		if e := find(p.persistent, k, nil, c.key); e != nil {
			p.attach(k, path, e.Copy())
		}
	case SetVcpus, SetMemory:
	}
}

// oldKey returns the live definition's key of a device that want declares under a new one.
func (p *stepper) oldKey(k kind, key string) string {
	if k.path == diskKind.path {
		return pair(p.have.Disks, p.want.Disks, sameDisk)[key]
	}
	return pair(p.have.Interfaces, p.want.Interfaces, sameInterface)[key]
}

// updated is the live device with what can be changed while it runs.
func (p *stepper) updated(k kind, e *etree.Element, key string) *etree.Element {
	if k.path == interfaceKind.path {
		want, have := p.want.Interfaces[key], readInterface(e)
		if want.movable() && have.movable() && !sameConnection(have, want) {
			connect(e, want)
		}
		setLink(e, want.LinkUp)
		return e
	}
	want := p.want.Disks[key]
	if !sameSource(readDisk(e).Source, want.Source) {
		applySource(e, want.Source)
	}
	if after := find(p.persistent, diskKind, nil, key); after != nil {
		setAttr(ensure(e, "driver"), "type", attr(child(after, "driver"), "type"))
	}
	return e
}

// attach plugs a device in. Addresses of the persistent definition may be taken in the running domain.
func (p *stepper) attach(k kind, path string, e *etree.Element) {
	dropChildren(e, "address")
	if k.path == diskKind.path && readDisk(e).Bus == "scsi" && len(p.live.controllers("scsi")) == 0 {
		// libvirt would add a controller of its own choice: the oldest.
		p.step(Step{Kind: Attach, Path: path, XML: render(scsiController())})
	}
	p.step(Step{Kind: Attach, Path: path, XML: render(e)})
}

// find returns the device with a key, where keys leads from the definition's own keys to those asked for.
func find(d *Definition, k kind, keys map[string]string, key string) *etree.Element {
	for _, have := range d.keyed(k, d.Metadata().Devices) {
		if name, ok := keys[have.key]; have.key == key && keys == nil || ok && name == key {
			return have.element
		}
	}
	return nil
}
