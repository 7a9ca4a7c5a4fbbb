package domain

import (
	"fmt"
	"strconv"

	"github.com/beevik/etree"
)

const (
	virtioMem = "virtio-mem"
	// virtioMemPath is the attribute for virtio-mem devices.
	virtioMemPath = "devices.virtio_mem"
	virtioMemWhy  = "The device is another one."
	// minVirtioMemBlock is the size of the transparent huge pages of most hosts. libvirt refuses smaller blocks.
	minVirtioMemBlock = 2 * mib
)

// virtioMemFamily are devices that give the guest as much of their memory as is requested.
var virtioMemFamily = Family{
	Path: virtioMemPath, Tag: "memory", in: func(s *Spec) *map[string]Row { return &s.VirtioMem },
	Doc: "Memory devices (virtio-mem) by a key: the guest, which needs a driver, gets and returns memory while it runs. " +
		"They require `memory.max_size`, which counts each whole `size`. If you set the map, list every one.",
	Added:           Transition{Live: true, Why: "The memory device is plugged into the running VM."},
	Removed:         Transition{Why: "A memory device can't be unplugged while the VM runs."},
	Bus:             busPCI,
	RestartRequired: noFreeMemorySlot,
	Skip:            func(e *etree.Element) bool { return attr(e, "model") != virtioMem },
	begin:           func(e *etree.Element) { setAttr(e, "model", virtioMem) },
	prepare:         requestNone,
	around:          countDevices,
	Attributes: []Attribute{
		{
			Name: "size", Place: "target/size", Kind: Amount, Why: virtioMemWhy, Filled: true,
			Doc: "Required: maximum memory that the guest can get from the device, such as `4Gi`.",
		},
		{
			Name: "block", Place: "target/block", Kind: Amount, Why: virtioMemWhy, Filled: true,
			Default: strconv.Itoa(minVirtioMemBlock), DefaultDoc: "`2Mi`",
			Doc: "Step in which memory comes and goes: a power of two, at least `2Mi` and the size of the VM's huge pages.",
		},
		{
			Name: "requested", Place: "target/requested", Kind: Amount, Zero: true, Live: Update,
			Why: "The running guest is asked to take or return memory.",
			Doc: "Memory that the guest is asked to use from the device. `\"0\"`: none.",
		},
		{
			Name: "node", Place: "target/node", Kind: Count, Why: virtioMemWhy, Filled: true, Default: "0",
			Doc: "NUMA cell of the guest that the memory belongs to.",
		},
	},
	Check: checkVirtioMem,
	fits:  fitVirtioMem,
}

// requestNone has a device plugged in that gives the guest nothing yet. What it is to give is requested afterwards: if
// the guest takes memory before libvirt first reads the new device's state, libvirt 9.0 never adds that memory to
// <currentMemory>, and memory.size seems to have shrunk.
func requestNone(_ *stepper, _ string, e *etree.Element) {
	setSize(ensure(child(e, "target"), "requested", "block", "size"), 0)
}

// checkVirtioMem checks the sizes of a device.
func checkVirtioMem(value func(string) string) (attribute, problem string) {
	amount := func(name string) uint64 {
		bytes, _ := strconv.ParseUint(value(name), 10, 64)
		return bytes
	}
	size, block, requested := amount("size"), amount("block"), amount("requested")
	if value("block") == "" {
		block = minVirtioMemBlock
	}
	switch {
	case size == 0:
		return "size", "It must be declared."
	case block < minVirtioMemBlock || block&(block-1) != 0:
		return "block", "It isn't a power of two from 2Mi."
	case size%block != 0:
		return "size", fmt.Sprintf("It isn't a multiple of the block of %d MiB.", block/mib)
	case requested%block != 0:
		return "requested", fmt.Sprintf("It isn't a multiple of the block of %d MiB.", block/mib)
	case requested > size:
		return "requested", "It is more than the size of the device."
	default:
		return "", ""
	}
}

// fitVirtioMem checks the devices against the declared memory and NUMA cells.
func fitVirtioMem(s Spec, c *checker) {
	if len(s.VirtioMem) == 0 {
		return
	}
	fitMemorySlots(s, c, virtioMemPath)
	fitNodes(s, c, virtioMemPath, s.VirtioMem)
}

// noFreeMemorySlot says why the declared devices can't be plugged into a running VM, and returns "" if they can.
func noFreeMemorySlot(have, want Spec) string {
	all := totalSize(want.VirtioMem) + totalSize(have.NVDIMMs)
	for key, row := range have.VirtioMem {
		if want.VirtioMem[key] == nil { // The device stays until the VM stops.
			all += totalSize(map[string]Row{key: row})
		}
	}
	maximum := pick(have.Memory.MaxSize, nil, 0)
	if all+pick(have.Memory.Installed, nil, 0) <= maximum && maximum > 0 && !have.Memory.Full {
		return ""
	}
	return "The running VM has no room for another memory device; memory.max_size reserves it when the VM starts."
}

// virtioMemory returns the total size of the virtio-mem devices.
func (d *Definition) virtioMemory() uint64 { return d.sumVirtioMem("size") }

// givenMemory returns how much memory a running guest has taken from its virtio-mem devices. <currentMemory> includes
// it.
func (d *Definition) givenMemory() uint64 { return d.sumVirtioMem("current") }

// sumVirtioMem adds up one element of the memory devices.
func (d *Definition) sumVirtioMem(tag string) uint64 {
	var sum uint64
	for _, e := range d.devices("memory") {
		if attr(e, "model") == virtioMem {
			bytes, _ := size(child(e, "target", tag))
			sum += bytes
		}
	}
	return sum
}
