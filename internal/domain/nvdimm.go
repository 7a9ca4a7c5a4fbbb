package domain

import (
	"fmt"
	"path"
	"strconv"

	"github.com/beevik/etree"
)

const (
	nvdimm = "nvdimm"
	// nvdimmPath is the attribute for NVDIMMs.
	nvdimmPath = "devices.nvdimms"
	nvdimmWhy  = "The guest finds its NVDIMMs when it starts."
	// nvdimmStep is the unit to which libvirt rounds the size of an NVDIMM up when it starts the VM.
	nvdimmStep = mib
	// minLabel is the smallest namespace label area.
	minLabel = 128 * kib
)

// nvdimmFamily are persistent memory modules: files or DAX devices of the host that are memory of the guest and outlast
// it. QEMU can't unplug one, and plugs one only into a VM that started with one.
var nvdimmFamily = Family{
	Path: nvdimmPath, Tag: "memory", in: func(s *Spec) *map[string]Row { return &s.NVDIMMs },
	Doc: "Persistent memory (NVDIMM) by a key: a file of the host that the guest sees as memory. It requires ACPI and " +
		"`memory.max_size`, which counts each `size`. If you set the map, list every one.",
	Added:           Transition{Live: true, Why: "The device is plugged into the running VM."},
	Removed:         Transition{Why: "QEMU can't unplug one."},
	Bus:             busNone,
	RestartRequired: noOtherNVDIMM,
	Skip:            func(e *etree.Element) bool { return attr(e, "model") != nvdimm },
	begin:           func(e *etree.Element) { setAttr(e, "model", nvdimm) },
	around:          countDevices,
	Attributes: []Attribute{
		{
			Name: "path", Place: "source/path", Why: nvdimmWhy, Check: absolute,
			Doc: "Required: file or DAX device on the host, which exists and has at least `size`. Only one VM may write to it.",
		},
		{
			Name: "align_size", Place: "source/alignsize", Kind: Amount, Why: nvdimmWhy,
			DefaultDoc: "QEMU decides",
			Doc:        "Alignment of the memory in QEMU, which a DAX device may require: a power of two.",
		},
		{
			Name: "pmem", Place: "source/pmem", Kind: Flag, Why: nvdimmWhy, DefaultDoc: "`false`",
			Doc: "Whether QEMU flushes writes to real persistent memory. It requires a QEMU that is built with libpmem.",
		},
		{
			Name: "shared", Place: "@access", Kind: Switch, On: "shared", Off: "private", Why: nvdimmWhy, Filled: true,
			Default: "yes", DefaultDoc: "`true`",
			Doc: "Whether what the guest writes reaches `path`. With `false`, it is lost when the guest stops.",
		},
		{
			Name: "size", Place: "target/size", Kind: Amount, Why: nvdimmWhy,
			Doc: "Required: size with `label_size`, such as `4Gi`: a multiple of `1Mi`.",
		},
		{
			Name: "node", Place: "target/node", Kind: Count, Why: nvdimmWhy, Filled: true, Default: "0",
			Doc: "NUMA cell of the guest that the memory belongs to.",
		},
		{
			Name: "label_size", Place: "target/label/size", Kind: Amount, Why: nvdimmWhy, DefaultDoc: "no label",
			Doc: "Size of the area at the end in which the guest describes its namespaces: at least `128Ki`.",
		},
		{
			Name: "read_only", Place: "target/readonly", Kind: Flag, Why: nvdimmWhy, DefaultDoc: "`false`",
			Doc: "Whether the guest is told that it can't write to the memory persistently. Linux then only reads it.",
		},
	},
	Check: checkNVDIMM,
	fits:  fitNVDIMMs,
}

// noOtherNVDIMM says why the declared NVDIMMs can't be plugged into a running VM, and returns "" if they can.
func noOtherNVDIMM(have, want Spec) string {
	all := totalSize(want.NVDIMMs) + totalSize(have.VirtioMem) + pick(have.Memory.Installed, nil, 0)
	for key, row := range have.NVDIMMs {
		if want.NVDIMMs[key] == nil { // It stays until the VM stops.
			all += totalSize(map[string]Row{key: row})
		}
	}
	if len(have.NVDIMMs) > 0 && all <= pick(have.Memory.MaxSize, nil, 0) && !have.Memory.Full {
		return ""
	}
	return "One can be plugged only into a VM that started with one, and with room in memory.max_size."
}

// checkNVDIMM checks the sizes of an NVDIMM.
func checkNVDIMM(value func(string) string) (attribute, problem string) {
	amount := func(name string) uint64 {
		bytes, _ := strconv.ParseUint(value(name), 10, 64)
		return bytes
	}
	size, label, align := amount("size"), amount("label_size"), amount("align_size")
	if attribute, problem = needs("path", "size")(value); problem != "" {
		return attribute, problem
	}
	switch {
	case size == 0 || size%nvdimmStep != 0:
		return "size", fmt.Sprintf("It isn't a multiple of %d MiB.", nvdimmStep/mib)
	case align&(align-1) != 0 || align > 0 && align < 4*kib:
		return "align_size", "It isn't a power of two from 4Ki."
	case align > 0 && size%align != 0:
		return "size", fmt.Sprintf("It isn't a multiple of the alignment of %d KiB.", align/kib)
	case label > 0 && label < minLabel:
		return "label_size", "The label needs at least 128Ki."
	case label >= size:
		return "label_size", "The label doesn't fit into the size."
	default:
		return "", ""
	}
}

// fitNVDIMMs checks the NVDIMMs against the declared memory, NUMA cells and features, and against each other.
func fitNVDIMMs(s Spec, c *checker) {
	if len(s.NVDIMMs) == 0 {
		return
	}
	if len(s.VirtioMem) == 0 { // fitVirtioMem checks all devices.
		fitMemorySlots(s, c, nvdimmPath)
	}
	fitNodes(s, c, nvdimmPath, s.NVDIMMs)
	c.require(s.Values[acpi] != "no", acpi, "A VM with "+nvdimmPath+" needs it.")
	writers := map[string]string{}
	for _, key := range sortedKeys(s.NVDIMMs) {
		row := s.NVDIMMs[key]
		if !writesNVDIMM(row) || row["path"] == "" {
			continue
		}
		file := path.Clean(row["path"])
		other, taken := writers[file]
		c.require(!taken, join(join(nvdimmPath, key), "path"), join(nvdimmPath, other)+" has the same file.")
		writers[file] = key
	}
}

// writesNVDIMM reports whether what the guest writes to an NVDIMM reaches its file.
func writesNVDIMM(row Row) bool { return row["read_only"] != "yes" && row["shared"] != "no" }

// NVDIMMUses returns the files of the declared NVDIMMs that the VM writes to.
func (s Spec) NVDIMMUses() []DiskUse {
	var uses []DiskUse
	for _, key := range sortedKeys(s.NVDIMMs) {
		if row := s.NVDIMMs[key]; writesNVDIMM(row) && row["path"] != "" {
			uses = append(uses, DiskUse{Key: key, NVDIMM: true, Source: DiskSource{File: row["path"]}})
		}
	}
	return uses
}

// nvdimmUses returns the files of the defined NVDIMMs that the VM writes to. Without access of its own, an NVDIMM has
// that of the memory.
func (d *Definition) nvdimmUses(names map[string]string) []DiskUse {
	var uses []DiskUse
	for _, have := range d.keyed(nvdimmFamily.kind(), names) {
		row := nvdimmFamily.read(have.element)
		if row["shared"] == "" && attr(child(d.root(), "memoryBacking", "access"), "mode") != "shared" {
			row["shared"] = "no"
		}
		if writesNVDIMM(row) && row["path"] != "" {
			uses = append(uses, DiskUse{Key: have.key, NVDIMM: true, Source: DiskSource{File: row["path"]}})
		}
	}
	return uses
}
