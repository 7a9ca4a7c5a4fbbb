package domain

import (
	"cmp"
	"slices"

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
	// SetTitle and SetDescription set what people say about the VM.
	SetTitle
	SetDescription
	// SetLifecycle sets what happens when the guest ends by itself.
	SetLifecycle
	// SetBlockIOTune sets the limits of a disk.
	SetBlockIOTune
	// SetScheduler sets shares, quotas and periods, PinVcpus, PinEmulator and PinIOThreads where threads run.
	SetScheduler
	PinVcpus
	PinEmulator
	PinIOThreads
	// SetBlkioWeight sets the weight of the VM's disk I/O.
	SetBlkioWeight
	// SetMemoryLimit sets what the VM's process may have of the host's memory.
	SetMemoryLimit
	// SetStatsPeriod sets how often the guest reports its memory.
	SetStatsPeriod
)

// stepNames are the kinds' names.
var stepNames = map[StepKind]string{
	Detach: "Detach", Update: "Update", ChangeMedium: "ChangeMedium", Attach: "Attach", SetVcpus: "SetVcpus",
	SetMemory: "SetMemory", SetBlockIOTune: "SetBlockIOTune", SetScheduler: "SetScheduler", PinVcpus: "PinVcpus",
	PinEmulator: "PinEmulator", PinIOThreads: "PinIOThreads", SetMemoryLimit: "SetMemoryLimit",
	SetStatsPeriod: "SetStatsPeriod", SetLifecycle: "SetLifecycle", SetTitle: "SetTitle",
	SetDescription: "SetDescription", SetBlkioWeight: "SetBlkioWeight",
}

// String returns the kind's name.
func (k StepKind) String() string {
	if name, ok := stepNames[k]; ok {
		return name
	}
	return "unknown"
}

// stepOrder is the order of the calls: what goes leaves its place to what comes, and memory is plugged in before the
// balloon is told to give it.
var stepOrder = []StepKind{
	Detach, Update, ChangeMedium, Attach, SetVcpus, SetMemory, SetBlockIOTune, SetScheduler, PinVcpus, PinEmulator,
	PinIOThreads, SetBlkioWeight, SetMemoryLimit, SetStatsPeriod, SetLifecycle, SetTitle, SetDescription,
}

// Step is one call on a running domain.
type Step struct {
	Kind StepKind
	// Path is the attribute the step is for.
	Path string
	// XML is the device of Attach, Detach, Update and ChangeMedium.
	XML string
	// VCPUs is for SetVcpus, Bytes for SetMemory.
	VCPUs int
	Bytes uint64
	// Value is for those that set one attribute, and for SetBlockIOTune the limits, see ParseTexts. Target is its disk.
	Value, Target string
}

// Memory is how much memory the step adds to what the guest can use, whatever its balloon leaves of it.
func (s Step) Memory() uint64 {
	doc := etree.NewDocument()
	if s.Kind != Attach || doc.ReadFromString(s.XML) != nil || doc.Root() == nil || doc.Root().Tag != "memory" {
		return 0
	}
	bytes, _ := size(child(doc.Root(), "target", "size"))
	return bytes
}

// LiveMemory is how much memory the live changes add to a running domain.
func LiveMemory(live, persistent *Definition, want Spec) (uint64, error) {
	if persistent != nil {
		persistent = persistent.Clone()
		if err := persistent.Apply(want); err != nil {
			return 0, err
		}
	}
	steps, err := LiveSteps(live, persistent, want)
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
// exactly the changes that Changes calls live. New devices are taken from persistent, the definition after
// Apply(want), so that both have the same address, name and alias; nil for a transient domain.
func LiveSteps(live, persistent *Definition, want Spec) ([]Step, error) {
	if persistent == nil {
		persistent = live.Clone()
		if err := persistent.Apply(want); err != nil {
			return nil, err
		}
	}
	want = want.normal()
	p := stepper{live: live, persistent: persistent, want: want, have: live.Spec(), keys: map[string]map[string]string{}}
	after := persistent.Spec()
	for _, b := range blocks {
		if b.begin != nil {
			b.begin(&p, after)
		}
	}
	p.want.Disks = p.want.withMedium(p.have.Disks)
	for _, c := range classify(p.have, p.want) {
		if c.Live && c.block.step != nil {
			c.block.step(&p, c)
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
	// keys lead from the live definition's own keys of devices to those that the changes use, by the path of their kind.
	keys  map[string]map[string]string
	steps []Step
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
