package domain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

const (
	whenAllocated = "The memory is allocated when the VM starts."
	balloonIsMade = "The balloon is created when the VM starts."
	limitIsSet    = "The limit is set in the running VM."
)

// memoryGroup are the attributes of the memory that each have one place in the definition.
var memoryGroup = Group{
	Path: "memory", Block: true,
	Doc: "Memory.", Check: checkMemory,
	Attributes: slices.Concat([]Attribute{
		{
			Name: "huge_pages", Read: readHugePages, Write: writeHugePages, Normal: normalPages, Unset: None,
			Check: func(value string) string {
				if page, ok := pageSize(value); ok && page&(page-1) == 0 || value == hugeDefault {
					return ""
				}
				return `It isn't the size of a page, such as "2Mi" or "1Gi", nor "default" or "none".`
			},
			Why: whenAllocated,
			Doc: "Size of the huge pages that the memory consists of, such as `2Mi` or `1Gi`, or `default` for the host's " +
				"default size. The host must have enough of them. `none` removes it.",
		},
		{
			Name: "locked", Place: "memoryBacking/locked", Kind: Flag, Why: whenAllocated,
			DefaultDoc: "`false`",
			Doc: "Whether the host never swaps the memory out. It needs `hard_limit` where the host limits locked " +
				"memory.",
		},
		{
			Name: "nosharepages", Place: "memoryBacking/nosharepages", Kind: Flag, Why: whenAllocated,
			DefaultDoc: "`false`",
			Doc:        "Whether the host never merges pages that are equal (KSM).",
		},
		{
			Name: "source", Place: "memoryBacking/source@type", Values: []string{"anonymous", "file", "memfd"},
			Unset: "default", Why: whenAllocated,
			Doc: "Backing of the guest's memory: `file` is a file below `memory_backing_dir` of the host's `qemu.conf`. " +
				"`default` removes it.",
		},
		{
			Name: "shared", Place: "memoryBacking/access@mode", Kind: Switch, On: "shared", Off: "private", Why: whenAllocated,
			DefaultDoc: "`false`",
			Doc:        "Whether other processes of the host can share the memory, as `virtiofs` and `vhostuser` require.",
		},
		{
			Name: "allocation", Place: "memoryBacking/allocation@mode", Values: []string{"immediate", "ondemand"},
			Unset: "default", Why: whenAllocated,
			Doc: "When the host's memory is allocated: with `immediate`, when the VM starts. `default` removes it.",
		},
		{
			Name: "discard", Place: "memoryBacking/discard", Kind: Flag, Why: whenAllocated,
			DefaultDoc: "`false`",
			Doc:        "Whether the content of the memory is discarded when the VM stops. Requires `source = \"file\"`.",
		},
		memoryLimit("hard_limit", "Maximum memory that the VM's process may use on the host, including QEMU's own. If "+
			"it needs more, the host kills it."),
		memoryLimit("soft_limit", "Maximum memory that the VM's process may use while the host is short of memory."),
		memoryLimit("swap_hard_limit", "Maximum memory and swap space that the VM's process may use on the host. Needs "+
			"`hard_limit`, and can't be lower."),
		{
			Name: "balloon.model", Place: "devices/memballoon@model", Why: balloonIsMade,
			Values:     []string{"virtio", "virtio-transitional", "virtio-non-transitional", None},
			DefaultDoc: "`virtio`",
			Doc:        "Model of the balloon. Without a balloon (`none`), the memory of a running VM can't be changed.",
		},
		balloonSwitch("autodeflate", "autodeflate", "Whether the balloon returns memory before a guest that runs out of it "+
			"kills processes.", ""),
		balloonSwitch("free_page_reporting", "freePageReporting", "Whether the host gets memory back that the guest has "+
			"freed.", "6.9.0"),
		{
			Name: "balloon.stats_period", Kind: Count, Zero: true, Live: SetStatsPeriod, Reset: "0",
			Why:  "The period is set in the running VM.",
			Read: func(e *etree.Element) string { return attr(child(e, "devices", "memballoon", "stats"), "period") },
			Write: func(e *etree.Element, value string) error {
				balloon := ensureBalloon(e)
				if value == "" {
					dropChildren(balloon, "stats")
					return nil
				}
				setAttr(ensure(balloon, "stats"), "period", value)
				return nil
			},
			DefaultDoc: "`10`",
			Doc:        "Seconds between two reports of the guest about its memory; `0`: none.",
		},
	}, numatune),
}

func init() {
	NestedDocs["memory.balloon"] = "Balloon, through which the memory of a running VM is changed."
}

const (
	// noLimit is the least limit that is none, in bytes: the kernel has no higher one.
	noLimit = 9007199254740988 * kib
	// unlimited removes a limit, in bytes. libvirt would write a lower value into the running definition, and lock as much
	// memory for the VM when it moves.
	unlimited = 9007199254740991 * kib
)

func memoryLimit(name, doc string) Attribute {
	return Attribute{
		Name: name, Place: "memtune/" + name, Kind: Amount, Zero: true, Live: SetMemoryLimit, Why: limitIsSet,
		Reset: strconv.FormatUint(unlimited, 10), Doc: doc + " `\"0\"`: no limit.",
		Normal: func(value string) string {
			if n, err := strconv.ParseUint(value, 10, 64); err == nil && n >= noLimit {
				return ""
			}
			return value
		},
	}
}

func balloonSwitch(name, key, doc, since string) Attribute {
	return Attribute{
		Name: "balloon." + name, Kind: Switch, Since: since, Why: balloonIsMade, Doc: doc,
		Read: func(e *etree.Element) string {
			return map[string]string{"on": "yes", "off": "no"}[attr(child(e, "devices", "memballoon"), key)]
		},
		Write: func(e *etree.Element, value string) error {
			setAttr(ensureBalloon(e), key, map[string]string{"yes": "on", "no": "off"}[value])
			return nil
		},
	}
}

// ensureBalloon returns the balloon. If there is none it adds one, as libvirt does.
func ensureBalloon(root *etree.Element) *etree.Element {
	balloon := ensure(ensure(root, "devices"), "memballoon")
	if attr(balloon, "model") == "" {
		setAttr(balloon, "model", "virtio")
	}
	return balloon
}

// hugePages is the path of the size of the huge pages.
const hugePages = "memory.huge_pages"

// hugeDefault stands for huge pages of the host's default size.
const hugeDefault = "default"

// pageSize parses a declared page size: 2Mi, 1Gi, 2048Ki.
func pageSize(value string) (uint64, bool) {
	at := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	if at <= 0 {
		return 0, false
	}
	bytes, ok := parseSize(value[:at], strings.TrimSuffix(value[at:], "B")+"B")
	return bytes, ok && bytes > 0 && strings.HasSuffix(value, "i")
}

// validatePages checks that the VM's memory can consist of the declared huge pages: QEMU doesn't start with memory, or
// a NUMA cell, that is less than a page. A memfd consists of whole pages; a file is rounded up.
func validatePages(s Spec, c *checker) {
	page, _ := pageSize(s.Values[hugePages])
	whole := s.Values["memory.source"] == "memfd"
	check := func(what string, bytes uint64) {
		switch {
		case page == 0 || bytes == 0:
		case bytes < page:
			c.require(false, hugePages, fmt.Sprintf("A page of %s doesn't fit into %s of %s.", formatPage(page), what,
				formatPage(bytes)))
		case whole && bytes%page != 0:
			c.require(false, hugePages, fmt.Sprintf("With the source memfd, %s of %s must be whole pages of %s.", what,
				formatPage(bytes), formatPage(page)))
		}
	}
	if page > 0 || s.Values[hugePages] == hugeDefault {
		c.require(s.Values["memory.source"] != "anonymous", "memory.source",
			"Huge pages come from a file or a memfd, not from anonymous memory. Leave it out.")
		c.require(s.Values["memory.allocation"] != "ondemand", "memory.allocation",
			`Huge pages are allocated at once, not "ondemand". Leave it out.`)
	}
	cells := ParseTable(s.Values[cpuNUMA])
	if len(cells) == 0 {
		check("memory.size", pick(s.Memory.Size, nil, 0))
	}
	for _, key := range sortedKeys(cells) {
		bytes, _ := strconv.ParseUint(cells[key]["memory"], 10, 64)
		check("the memory of cell "+key, bytes)
	}
}

func normalPages(value string) string {
	if bytes, ok := pageSize(value); ok {
		return formatPage(bytes)
	}
	return value
}

// readHugePages reads the page size that applies to all memory. Page sizes of single NUMA cells can't be declared, see
// pagesOfCells.
func readHugePages(root *etree.Element) string {
	huge := child(root, "memoryBacking", "hugepages")
	if huge == nil {
		return ""
	}
	pages := children(huge, "page")
	switch {
	case len(pages) == 0:
		return hugeDefault
	case len(pages) > 1 || attr(pages[0], "nodeset") != "":
		return ""
	}
	bytes, ok := parseSize(attr(pages[0], "size"), attr(pages[0], "unit"))
	if !ok {
		return ""
	}
	return formatKiB(bytes) + "Ki"
}

// pagesOfCells returns the bytes of huge pages by page size where the definition has page sizes for single NUMA cells
// of the guest, and nil where it has one size for all memory or none. all is the memory of a guest without cells.
func (d *Definition) pagesOfCells(all uint64) map[uint64]uint64 {
	pages := children(child(d.root(), "memoryBacking", "hugepages"), "page")
	if len(pages) == 0 || readHugePages(d.root()) != "" {
		return nil
	}
	memory, use := d.memoryOfCells(all), map[uint64]uint64{}
	for _, withCells := range []bool{true, false} { // A page without cells is for those that no other page names.
		for _, page := range pages {
			cells, ok := parseSet(attr(page, "nodeset"))
			if len(cells) > 0 != withCells || !ok {
				continue
			}
			if !withCells {
				cells = slices.Collect(maps.Keys(memory))
			}
			size, ok := parseSize(attr(page, "size"), attr(page, "unit"))
			for _, cell := range cells {
				if ok && size >= mib && memory[cell] > 0 { // Smaller pages are ordinary.
					use[size] += memory[cell]
				}
				delete(memory, cell)
			}
		}
	}
	return use
}

// memoryOfCells returns the memory of each NUMA cell of the guest, with the memory devices in it. A guest without cells
// has all of its memory in cell 0.
func (d *Definition) memoryOfCells(all uint64) map[int]uint64 {
	cells := children(child(d.root(), "cpu", "numa"), "cell")
	if len(cells) == 0 {
		return map[int]uint64{0: all}
	}
	memory := map[int]uint64{}
	for i, e := range cells {
		cell, ok := number(attr(e, "id"))
		if !ok {
			cell = i // As libvirt numbers them.
		}
		memory[cell], _ = parseSize(attr(e, "memory"), attr(e, "unit"))
	}
	for _, e := range d.devices("memory") {
		cell, _ := number(text(child(e, "target", "node")))
		bytes, ok := size(child(e, "target", "size"))
		if ok && child(e, "source", "path") == nil { // A file isn't made of the host's pages.
			memory[cell] += bytes
		}
	}
	return memory
}

func writeHugePages(root *etree.Element, value string) error {
	if value == "" {
		backing := child(root, "memoryBacking")
		dropChildren(backing, "hugepages")
		dropEmpty(backing, root)
		return nil
	}
	huge := ensure(ensure(root, "memoryBacking", "memtune", "currentMemory", "memory"), "hugepages")
	dropChildren(huge, "page")
	if bytes, ok := pageSize(value); ok {
		add(huge, "page", "size", formatKiB(bytes), "unit", "KiB")
	}
	return nil
}
