package domain

import (
	"math"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	// memorySlots is how many memory devices a VM with a maximum can have, as in KubeVirt.
	memorySlots = "16"
	// memoryStep is the unit in which Linux and Windows guests on x86 accept more memory.
	memoryStep = 128 * mib
)

// memoryBlock is the VM's memory.
var memoryBlock = block{
	rules:    memoryRules,
	read:     func(d *Definition, s *Spec) { s.Memory = d.readMemory() },
	apply:    func(d *Definition, want Spec) error { return d.applyMemory(want) },
	classify: classifyMemory,
	validate: func(s Spec, c *checker) {
		s.Memory.validate(c)
		validatePages(s, c)
	},
	complete: func(persistent *Spec, _ Spec) {
		if persistent.Memory.MaxSize == nil {
			persistent.Memory.MaxSize = new(uint64(0))
		}
	},
	observe: func(merged *Spec, live Spec) {
		merged.Memory.Installed, merged.Memory.Fixed = live.Memory.Installed, live.Memory.Fixed
		merged.Memory.Full = live.Memory.Full
	},
	step: func(p *stepper, c change) {
		if c.step == Attach {
			p.plugMemory(c)
			return
		}
		p.step(Step{Kind: SetMemory, Path: c.Path, Bytes: *p.want.Memory.Size})
	},
}

var memoryRules = map[string]rule{
	"memory.size balloon": {effect: live, step: SetMemory, why: "Its balloon is set, up to the size at the start."},
	"memory.size plugged": {effect: live, step: Attach, why: "Memory is plugged in, beyond the size at the start."},
	"memory.size unfit":   {effect: restart, why: "A running VM grows only in steps of 128Mi."},
	"memory.size page": {
		effect: restart, why: "A running VM on huge pages grows only in whole pages.",
	},
	"memory.size fixed":    {effect: restart, why: "The VM has no balloon, which changes the memory of a running VM."},
	"memory.size too much": {effect: restart, why: "The running VM can't grow that far; memory.max_size can reserve it."},
	"memory.size no slot":  {effect: restart, why: "The running VM has no free slot for another memory device."},
	"memory.max_size":      {effect: restart, why: "Room for more memory is reserved when the VM starts."},
}

// readMemory reads <currentMemory>, <memory> and <maxMemory>. The memory of devices.virtio_mem and
// devices.nvdimms isn't counted. The balloon takes nothing of an NVDIMM, so <currentMemory> limits only the rest.
func (d *Definition) readMemory() Memory {
	var read Memory
	installed, ok := size(child(d.root(), "memory"))
	if ok {
		installed -= min(d.deviceMemory(), installed)
		read.Installed = new(installed)
		read.Size = new(installed)
	}
	if current, ok := size(child(d.root(), "currentMemory")); ok && current > 0 {
		if d.deviceMemory() > 0 {
			current = min(current-min(d.givenMemory(), current), installed)
		}
		read.Size = new(current)
	}
	if maximum, ok := size(child(d.root(), "maxMemory")); ok && maximum > 0 {
		read.MaxSize = new(maximum)
	}
	slots, limited := number(attr(child(d.root(), "maxMemory"), "slots"))
	read.Full = limited && len(d.devices("memory")) >= slots
	for _, balloon := range d.devices("memballoon") {
		read.Fixed = attr(balloon, "model") == "none"
	}
	return read
}

// size reads an amount of memory as libvirt does: in KiB if there is no unit, and rounded up to KiB.
func size(e *etree.Element) (uint64, bool) {
	return parseSize(text(e), attr(e, "unit"))
}

func parseSize(amount, unit string) (uint64, bool) {
	n, err := strconv.ParseUint(amount, 10, 64)
	if err != nil {
		return 0, false
	}
	base, exponent := uint64(1024), 1
	if unit = strings.ToLower(unit); unit != "" {
		exponent = strings.Index("bkmgtpe", unit[:1])
		switch rest := unit[1:]; {
		case exponent < 0, exponent == 0 && rest != "" && rest != "yte" && rest != "ytes":
			return 0, false
		case rest == "b":
			base = 1000
		case exponent > 0 && rest != "" && rest != "ib":
			return 0, false
		}
	}
	for range exponent {
		if n > (1<<63)/base {
			return 0, false
		}
		n *= base
	}
	return (n + kib - 1) / kib * kib, true
}

// setSize writes an amount of memory. An element that already has that amount is left as it is.
func setSize(e *etree.Element, bytes uint64) {
	if have, ok := size(e); ok && have == bytes {
		return
	}
	setAttr(e, "unit", "KiB")
	e.SetText(formatKiB(bytes))
}

func formatKiB(bytes uint64) string {
	return strconv.FormatUint((bytes+kib-1)/kib, 10)
}

// applyMemory patches the sizes. <memory> and <currentMemory> change together, unless the balloon's headroom covers the
// new size. Plugged memory devices stay: the memory that the guest boots with changes.
func (d *Definition) applyMemory(declared Spec) error {
	want := declared.Memory
	_, cells := declared.Values[cpuNUMA]
	if err := d.applySize(want, cells); err != nil {
		return err
	}
	if have := d.readMemory(); want.MaxSize != nil && !SameMemory(pick(have.MaxSize, nil, 0), *want.MaxSize) {
		return d.applyMaxMemory(have, *want.MaxSize)
	}
	return nil
}

// applySize patches the size. cells says that the NUMA cells are declared, with their memory.
func (d *Definition) applySize(want Memory, cells bool) error {
	have := d.readMemory()
	if !memoryDiffers(have.Size, want.Size) {
		return nil
	}
	to := *want.Size
	maximum := pick(want.MaxSize, have.MaxSize, 0)
	if maximum == 0 {
		maximum = math.MaxUint64
	}
	if to > maximum {
		return Problem{"memory.size", "The size is more than the maximum of the VM: declare a larger memory.max_size."}
	}
	current := ensure(d.root(), "currentMemory", "memory", "maxMemory", "uuid", "name")
	installed := pick(have.Installed, nil, 0)
	if headroom := installed > pick(have.Size, nil, 0); headroom && to <= installed && installed <= maximum {
		setSize(current, to+d.givenMemory())
		return nil
	}
	if !cells {
		if err := d.applyBootMemory(to); err != nil {
			return err
		}
	}
	setSize(ensure(d.root(), "memory", "maxMemory", "uuid", "name"), to+d.deviceMemory())
	setSize(current, to+d.givenMemory())
	return nil
}

// TrimMemory removes the memory beyond the size, which only a balloon takes from the guest. It reports whether it did:
// it leaves the memory of declared NUMA cells and of memory devices.
func (d *Definition) TrimMemory(declared Spec) bool {
	have := d.readMemory()
	_, cells := declared.Values[cpuNUMA]
	to := pick(have.Size, nil, 0)
	if cells || to == 0 || pick(have.Installed, nil, 0) <= to || d.applyBootMemory(to) != nil {
		return false
	}
	setSize(ensure(d.root(), "memory", "maxMemory", "uuid", "name"), to+d.deviceMemory())
	return true
}

// applyMaxMemory sets <maxMemory>. libvirt requires a NUMA cell to plug memory into.
func (d *Definition) applyMaxMemory(have Memory, to uint64) error {
	if to == 0 {
		dropChildren(d.root(), "maxMemory")
		return nil
	}
	if to < pick(have.Installed, nil, 0) {
		return Problem{"memory.max_size", "The maximum is less than the memory of the VM."}
	}
	maximum := child(d.root(), "maxMemory")
	if maximum == nil {
		maximum = element("maxMemory", "slots", memorySlots)
		insert(d.root(), maximum, "metadata", "description", "title", "genid", "uuid", "name")
	}
	setSize(maximum, to)
	numa := ensure(ensure(d.root(), "cpu", "features", "os"), "numa")
	if child(numa, "cell") == nil {
		maxVCPUs, _ := d.vcpus()
		cpus := "0"
		if maxVCPUs > 1 {
			cpus = "0-" + strconv.Itoa(maxVCPUs-1)
		}
		boot := pick(have.Installed, nil, 0) - min(d.pluggedMemory(), pick(have.Installed, nil, 0))
		add(numa, "cell", "id", "0", "cpus", cpus, "memory", formatKiB(boot), "unit", "KiB")
	}
	return nil
}

// pluggedMemory returns the memory of the memory devices that memory.size counts. <memory> includes it.
func (d *Definition) pluggedMemory() uint64 {
	var sum uint64
	for _, device := range d.devices("memory") {
		if model := attr(device, "model"); model == virtioMem || model == nvdimm {
			continue
		}
		if bytes, ok := size(child(device, "target", "size")); ok {
			sum += bytes
		}
	}
	return sum
}

// applyBootMemory divides total, without the memory of the memory devices, among the NUMA cells in their proportions.
func (d *Definition) applyBootMemory(total uint64) error {
	plugged := d.pluggedMemory()
	if plugged >= total {
		return Problem{"memory.size", "The memory devices of the VM alone have " + strconv.FormatUint(plugged/mib, 10) +
			" MiB: remove them first."}
	}
	cells := children(child(d.root(), "cpu", "numa"), "cell")
	if len(cells) == 0 {
		return nil
	}
	boot, sum := total-plugged, uint64(0)
	sizes := make([]uint64, len(cells))
	for i, cell := range cells {
		sizes[i], _ = parseSize(attr(cell, "memory"), attr(cell, "unit"))
		sum += sizes[i]
	}
	left := boot
	for i, cell := range cells {
		part := left
		if i < len(cells)-1 {
			// Floating point is intended: the product of two sizes doesn't fit an integer. The last cell gets what
			// rounding leaves over.
			part = uint64(float64(boot)*(float64(sizes[i])/float64(max(sum, 1)))) / mib * mib
		}
		if part == 0 || part > left {
			return Problem{"memory.size", "The memory doesn't reach for all NUMA cells of the VM. Change its cells first."}
		}
		left -= part
		if part != sizes[i] {
			setAttr(cell, "memory", formatKiB(part))
			setAttr(cell, "unit", "KiB")
		}
	}
	return nil
}

// classifyMemory classifies the sizes.
func classifyMemory(c *classifier) {
	have, want := c.have.Memory, c.want.Memory
	if want.MaxSize != nil && !SameMemory(*want.MaxSize, pick(have.MaxSize, nil, 0)) {
		c.add("memory.max_size", "memory.max_size", "")
	}
	if !memoryDiffers(have.Size, want.Size) {
		return
	}
	installed := pick(have.Installed, have.Size, 0)
	// The host's default size is unknown here. It is less than a step unless the host was booted with another default.
	page, _ := c.have.Values.pagesOfCell(0)
	row := "memory.size balloon"
	switch more := *want.Size - installed; {
	case *want.Size <= installed && have.Fixed:
		row = "memory.size fixed"
	case *want.Size <= installed:
	case *want.Size+c.have.deviceSize() > pick(have.MaxSize, nil, 0):
		row = "memory.size too much"
	case more%memoryStep != 0:
		row = "memory.size unfit"
	case page > 0 && more%page != 0:
		row = "memory.size page"
	case have.Full:
		row = "memory.size no slot"
	default:
		row = "memory.size plugged"
	}
	c.add("memory.size", row, "")
}

// plugMemory plugs in the missing memory. Then the balloon gives all memory to the guest.
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
