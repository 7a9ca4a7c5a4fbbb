package domain

import (
	"cmp"
	"maps"
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
	// ChangeMedium puts another medium into a drive, or none.
	ChangeMedium
	// SetTitle and SetDescription set the title and the description that users give the VM.
	SetTitle
	SetDescription
	// SetLifecycle sets what happens when the guest shuts down, reboots or crashes.
	SetLifecycle
	// SetBlockIOTune sets the limits of a disk.
	SetBlockIOTune
	// SetScheduler sets shares, quotas and periods. PinVcpus, PinEmulator and PinIOThreads set the host CPUs that
	// threads run on.
	SetScheduler
	PinVcpus
	PinEmulator
	PinIOThreads
	// SetIOThreads adds and removes I/O threads.
	SetIOThreads
	// SetBlkioWeight sets the weight of the VM's disk I/O.
	SetBlkioWeight
	// SetBlkioDevices sets the weights and limits of the VM on devices of the host.
	SetBlkioDevices
	// SetMemoryLimit sets how much of the host's memory the VM's process may use.
	SetMemoryLimit
	// SetStatsPeriod sets how often the guest reports its memory.
	SetStatsPeriod
)

// stepNames are the names of the kinds.
var stepNames = map[StepKind]string{
	Detach: "Detach", Update: "Update", ChangeMedium: "ChangeMedium", Attach: "Attach", SetVcpus: "SetVcpus",
	SetMemory: "SetMemory", SetBlockIOTune: "SetBlockIOTune", SetScheduler: "SetScheduler", PinVcpus: "PinVcpus",
	PinEmulator: "PinEmulator", PinIOThreads: "PinIOThreads", SetMemoryLimit: "SetMemoryLimit",
	SetStatsPeriod: "SetStatsPeriod", SetLifecycle: "SetLifecycle", SetTitle: "SetTitle",
	SetIOThreads: "SetIOThreads", SetDescription: "SetDescription", SetBlkioWeight: "SetBlkioWeight",
	SetBlkioDevices: "SetBlkioDevices",
}

// String returns the kind's name.
func (k StepKind) String() string {
	if name, ok := stepNames[k]; ok {
		return name
	}
	return "unknown"
}

// stepOrder is the order of the calls. Removed devices free their places for added ones, an added disk may use an added
// I/O thread, and memory is plugged in before the balloon is told to give it to the guest.
var stepOrder = []StepKind{
	Detach, SetIOThreads, Update, ChangeMedium, Attach, SetVcpus, SetMemory, SetBlockIOTune, SetScheduler, PinVcpus,
	PinEmulator, PinIOThreads, SetBlkioWeight, SetBlkioDevices, SetMemoryLimit, SetStatsPeriod, SetLifecycle, SetTitle,
	SetDescription,
}

// Step is one call on a running domain.
type Step struct {
	Kind StepKind
	// Path is the attribute the step is for; for SetMemoryLimit, all of them.
	Path string
	// XML is the device of Attach, Detach, Update and ChangeMedium.
	XML string
	// VCPUs is for SetVcpus, Bytes for SetMemory.
	VCPUs int
	Bytes uint64
	// Network is the network that supplies what the interface of an Update lacks, see Supplied; "" if the interface lacks
	// nothing.
	Network string
	// Value is for calls that set one attribute. For SetBlockIOTune it has the limits, see ParseTexts, and Target is the
	// disk. For SetMemoryLimit it has the limits by name. For SetIOThreads it has the numbers of the threads, see
	// ParseNumbers. Was is the value that the running domain has.
	Value, Was, Target string
}

// Memory returns how much memory the step adds to what the guest can use, regardless of the balloon. An NVDIMM is a
// file of the host.
func (s Step) Memory() uint64 {
	doc := etree.NewDocument()
	if s.Kind != Attach || doc.ReadFromString(s.XML) != nil || doc.Root() == nil || doc.Root().Tag != "memory" ||
		attr(doc.Root(), "model") == nvdimm {
		return 0
	}
	bytes, _ := size(child(doc.Root(), "target", "size"))
	return bytes
}

// Begins reports whether the step is the first of several for a device: a memory device is plugged in before any of its
// memory is requested. LiveSteps returns the others once the running domain has the device.
func (s Step) Begins() bool { return s.Memory() > 0 }

// LiveMemory returns how much memory the live changes add to a running domain.
func LiveMemory(live, persistent *Definition, want Spec) (uint64, error) {
	after := persistent
	if after != nil {
		after = after.Clone()
		if err := after.Apply(want); err != nil {
			return 0, err
		}
	}
	steps, err := LiveSteps(live, persistent, after, want)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, s := range steps {
		sum += s.Memory()
	}
	return sum, nil
}

// LiveSteps returns the calls that bring a running domain to what want declares, as far as that needs no restart:
// exactly the changes that Changes calls live. The running devices are those of before, the definition before
// Apply(want): afterwards a changed device can't be told from another one. New devices are taken from persistent, the
// definition after Apply(want), so that both definitions have the same address, name and alias. Both are nil for a
// transient domain.
func LiveSteps(live, before, persistent *Definition, want Spec) ([]Step, error) {
	if persistent == nil {
		before, persistent = live, live.Clone()
		if err := persistent.Apply(want); err != nil {
			return nil, err
		}
	}
	if before == nil { // It was made persistent meanwhile.
		before = persistent
	}
	want = want.normal()
	live = live.Clone()
	live.AdoptNames(before) // They are written to the persistent definition first.
	p := stepper{live: live, persistent: persistent, want: want, have: live.Spec(), keys: map[string]map[string]string{}}
	was := before.Spec()
	p.want.Disks = want.withMedium(was.Disks)
	for _, b := range blocks {
		if b.prepareLive != nil {
			b.prepareLive(&p, was)
		}
	}
	p.want.Disks = want.withMedium(p.have.Disks)
	for _, c := range classify(p.have, p.want) {
		if c.Live && c.block.step != nil {
			c.block.step(&p, c)
		}
	}
	slices.SortStableFunc(p.steps, func(a, b Step) int {
		return cmp.Compare(slices.Index(stepOrder, a.Kind), slices.Index(stepOrder, b.Kind))
	})
	orderSchedulers(p.steps, p.have.Values, p.want.Values)
	return joinMemoryLimits(p.steps), nil
}

// WithoutDevice returns the spec without a device that can be plugged into a running VM, and false if the path is that
// of something else. A definition that hasn't got the device stays without it; what it has of a device without a key
// stays.
func (s Spec) WithoutDevice(path string) (Spec, bool) {
	if path == "guest_agent" {
		s.GuestAgent = nil
		return s, true
	}
	for _, g := range deviceGroups {
		if g.Path == path {
			s.Values = maps.Clone(s.Values)
			for _, a := range g.Attributes {
				delete(s.Values, g.At(a))
			}
			return s, true
		}
	}
	b, key := keyedBlock(path)
	if b == nil {
		return s, false
	}
	b.without(&s, key)
	return s, true
}

// HasDevice reports whether the spec has a device with a key at a path.
func (s Spec) HasDevice(path string) bool {
	b, key := keyedBlock(path)
	return b != nil && b.has(s, key)
}

// keyedBlock returns the block and the key of a device's path, and nil if it is the path of something else.
func keyedBlock(path string) (of *block, key string) {
	for i, b := range blocks {
		if b.without == nil {
			continue
		}
		if key, ok := strings.CutPrefix(path, b.kind.path+"."); ok && !strings.Contains(key, ".") {
			return &blocks[i], key
		}
	}
	return nil, ""
}

// stepper collects the steps for live changes.
type stepper struct {
	live, persistent *Definition
	have, want       Spec
	// keys map the live definition's keys of devices to the keys that the changes use, by the path of the devices'
	// kind.
	keys  map[string]map[string]string
	steps []Step
}

// step adds a step. It adds a call only once, even if two attributes need it.
func (p *stepper) step(s Step) {
	for _, other := range p.steps {
		other.Path = s.Path
		if other == s {
			return
		}
	}
	p.steps = append(p.steps, s)
}
