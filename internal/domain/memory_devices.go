package domain

import (
	"fmt"
	"strconv"
)

// Memory devices that memory.size doesn't count: virtio-mem and NVDIMMs. <memory> counts them, and <maxMemory> has to.

// deviceSize returns the total size of the declared memory devices.
func (s Spec) deviceSize() uint64 { return totalSize(s.VirtioMem) + totalSize(s.NVDIMMs) }

// totalSize returns the total size of memory devices.
func totalSize(all map[string]Row) uint64 {
	var sum uint64
	for _, row := range all {
		bytes, _ := strconv.ParseUint(row["size"], 10, 64)
		sum += bytes
	}
	return sum
}

// deviceMemory returns the total size of the memory devices. <memory> includes it, memory.size doesn't.
func (d *Definition) deviceMemory() uint64 { return d.virtioMemory() + d.nvdimmMemory() }

// nvdimmMemory returns the total size of the NVDIMMs.
func (d *Definition) nvdimmMemory() uint64 {
	var sum uint64
	for _, e := range d.devices("memory") {
		if attr(e, "model") == nvdimm {
			bytes, _ := size(child(e, "target", "size"))
			sum += bytes
		}
	}
	return sum
}

// fitMemorySlots checks that the declared maximum has room for the declared devices. path is the attribute of some of
// them.
func fitMemorySlots(s Spec, c *checker, path string) {
	maximum := pick(s.Memory.MaxSize, nil, 0)
	size := pick(s.Memory.Size, nil, 0)
	sum := size + s.deviceSize()
	alone := maximum > 0 && maximum < size // Refused without devices, too.
	c.require(s.Memory.MaxSize == nil || sum <= maximum || alone, "memory.max_size", tooLarge(sum, maximum, path))
}

// fitNodes checks that the declared NUMA cells include those of the devices.
func fitNodes(s Spec, c *checker, path string, all map[string]Row) {
	cells := ParseTable(s.Values[cpuNUMA])
	for _, key := range sortedKeys(all) {
		node := all[key]["node"]
		c.require(len(cells) == 0 || node == "" || cells[node] != nil, join(join(path, key), "node"),
			"cpu.numa has no such cell.")
	}
}

func tooLarge(sum, maximum uint64, path string) string {
	if maximum == 0 {
		return "A VM with " + path + " needs it."
	}
	return fmt.Sprintf("The VM has %d MiB, and with the whole size of its memory devices %d MiB.", maximum/mib, sum/mib)
}

// checkMemorySlots checks that the VM has room for its memory devices.
func (d *Definition) checkMemorySlots() error {
	path := virtioMemPath
	switch {
	case d.deviceMemory() == 0:
		return nil
	case d.virtioMemory() == 0:
		path = nvdimmPath
	}
	sum, _ := size(child(d.root(), "memory"))
	if maximum, _ := size(child(d.root(), "maxMemory")); sum > maximum {
		return Problem{"memory.max_size", tooLarge(sum, maximum, path)}
	}
	return nil
}

// UsableMemory returns the most memory of its host that the guest can use while it runs without changes: its memory,
// regardless of the balloon, and the full size of its virtio-mem devices. The full size counts because a guest may keep
// memory that is no longer requested, and because a later request doesn't check the host's free memory again. NVDIMMs
// don't count: their memory is the host's file, of which the host keeps in its cache what fits.
func (s Spec) UsableMemory() uint64 {
	return pick(s.Memory.Installed, s.Memory.Size, 0) + totalSize(s.VirtioMem)
}

// countDevices makes <memory> include the memory devices that remain after a change.
func countDevices(d *Definition, change func() error) error {
	before, was := d.readMemory(), d.deviceMemory()
	err := change()
	if now := d.deviceMemory(); err == nil && now != was && before.Installed != nil {
		setSize(ensure(d.root(), "memory", "maxMemory", "uuid", "name"), *before.Installed+now)
		setSize(ensure(d.root(), "currentMemory", "memory", "maxMemory", "uuid", "name"), *before.Size+d.givenMemory())
	}
	return err
}
