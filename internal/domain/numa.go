package domain

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

const (
	// cpuNUMA is the path of the guest's NUMA cells.
	cpuNUMA  = "cpu.numa"
	numaWhy  = "The guest finds its NUMA cells when it starts."
	nodesWhy = "QEMU binds the memory to NUMA nodes of the host when the VM starts."
)

// numaCells are the NUMA cells that the guest sees.
var numaCells = Attribute{
	Name: "numa", Place: "cpu/numa/cell@id", Kind: Table, Why: numaWhy, Met: cellsMet,
	Doc: "NUMA cells that the guest sees, by their number from 0. Their `memory` adds up to `memory.size` or more. " +
		"If you set the map, list every cell with all that it has. `{}` removes them.",
	Columns: []Attribute{
		{
			Name: "cpus", Place: "@cpus", Normal: normalSet, Check: cpuSet,
			Doc: "Virtual CPUs of the cell, such as `0-3`. Without them, the cell has only memory.",
		},
		{
			Name: "memory", Kind: Amount, Normal: wholeMiB,
			Read: func(e *etree.Element) string {
				bytes, ok := parseSize(attr(e, "memory"), attr(e, "unit"))
				if !ok {
					return ""
				}
				return strconv.FormatUint(bytes, 10)
			},
			Write: func(e *etree.Element, value string) error {
				bytes, err := strconv.ParseUint(value, 10, 64)
				if err != nil {
					return err
				}
				setAttr(e, "memory", formatKiB(bytes))
				setAttr(e, "unit", "KiB")
				return nil
			},
			Doc: "Required: memory of the cell, such as `2Gi`.",
		},
		{
			Name: "memory_access", Place: "@memAccess", Values: []string{"shared", "private"},
			DefaultDoc: "the value of `memory.shared`",
			Doc:        "Whether other processes of the host can share the memory of the cell.",
		},
		{
			Name: "discard", Place: "@discard", Kind: Switch,
			DefaultDoc: "the value of `memory.discard`",
			Doc:        "Whether the content of the cell's memory is discarded when the VM stops.",
		},
		numaDistances,
	},
}

// numatune are the attributes that bind memory to NUMA nodes of the host.
var numatune = []Attribute{
	{
		Name: "numatune.mode", Values: numaModes, Unset: None, Why: nodesWhy,
		Read: func(e *etree.Element) string { return textAt(e, "numatune/memory@mode") },
		Write: func(e *etree.Element, value string) error {
			if value == "" { // Without a mode, the rest of the element has no meaning.
				tune := child(e, "numatune")
				dropChildren(tune, "memory")
				dropEmpty(tune, e)
			}
			setTextAt(e, "numatune/memory@mode", value)
			return nil
		},
		Doc: "How memory is bound to the nodes. If they lack it, `strict` fails; `preferred` uses others. `interleave` " +
			"spreads it; with `restrictive`, the kernel chooses. `none` removes the binding.",
	},
	{
		Name: "numatune.nodeset", Place: "numatune/memory@nodeset", Normal: normalSet, Check: cpuSet, Why: nodesWhy,
		Doc: "NUMA nodes of the host, such as `0-1`. Only a host that has them is chosen.",
	},
	{
		Name: "numatune.placement", Place: "numatune/memory@placement", Values: []string{"auto"}, Unset: "static",
		Why: nodesWhy, Doc: "`auto`: numad on the host chooses the nodes. `static`: `nodeset` does.",
	},
	{
		Name: "numatune.cells", Place: "numatune/memnode@cellid", Kind: Table, Why: nodesWhy,
		Doc: "Nodes for the memory of single cells of `cpu.numa`, by their number. If you set the map, list every one. " +
			"`{}` removes them.",
		Columns: []Attribute{
			{
				Name: "mode", Place: "@mode", Values: numaModes,
				Doc: "Required: like `numatune.mode`, for this cell.",
			},
			{
				Name: "nodeset", Place: "@nodeset", Normal: normalSet, Check: cpuSet,
				Doc: "Required: NUMA nodes of the host for the cell.",
			},
		},
	},
}

var numaModes = []string{"strict", "preferred", "interleave", "restrictive"}

func init() {
	NestedDocs["memory.numatune"] = "NUMA nodes of the host that the memory comes from."
}

// cellsMet reports whether the cells of a running VM differ from the declared ones only by memory that was plugged in.
// The next start's definition has that memory in its cells.
func cellsMet(have Spec, want string) bool {
	is, next := ParseTable(have.Values[cpuNUMA]), ParseTable(want)
	sum := uint64(0)
	for key, cell := range next {
		bytes, _ := strconv.ParseUint(cell["memory"], 10, 64)
		sum += bytes
		if is[key] == nil || cell["cpus"] != is[key]["cpus"] || cell["memory_access"] != is[key]["memory_access"] ||
			cell["discard"] != is[key]["discard"] || cell["distances"] != is[key]["distances"] {
			return false
		}
	}
	return len(next) > 0 && len(is) == len(next) && sum == pick(have.Memory.Installed, nil, 0)
}

// validateNUMA checks the cells against the declared CPUs and memory.
func validateNUMA(s Spec, c *checker) {
	cells := ParseTable(s.Values[cpuNUMA])
	if value, ok := s.Values[cpuNUMA]; ok && value == "" {
		c.require(pick(s.Memory.MaxSize, nil, 0) == 0, cpuNUMA, "A VM with memory.max_size has at least one cell.")
	}
	sum, taken := uint64(0), map[int]string{}
	sets, sizes := true, true // Whether all keys and sets, and all sizes, can be read.
	for _, key := range sortedKeys(cells) {
		path, cell := join(cpuNUMA, key), cells[key]
		n, isNumber := number(key)
		c.require(n < len(cells), cpuNUMA, fmt.Sprintf("The cells aren't numbered from 0: there are %d, and one is %s.",
			len(cells), key))
		bytes, _ := strconv.ParseUint(cell["memory"], 10, 64)
		c.require(bytes > 0, join(path, "memory"), "A cell needs memory.")
		sum, sizes = sum+bytes, sizes && bytes > 0
		cpus, ok := parseSet(cell["cpus"])
		sets = sets && isNumber && (ok || cell["cpus"] == "")
		for _, cpu := range cpus {
			c.require(taken[cpu] == "", join(path, "cpus"), fmt.Sprintf("Virtual CPU %d is in cell %s, too.", cpu, taken[cpu]))
			taken[cpu] = key
		}
		// Sockets, cores and threads that don't give the CPUs have an error of their own.
		if most := s.CPU.MaxVCPUs(); most > 0 && (s.CPU.VCPUs != nil || s.CPU.Sockets != nil) {
			c.require(len(cpus) == 0 || slices.Max(cpus) < most, join(path, "cpus"),
				fmt.Sprintf("The VM has virtual CPUs 0 to %d.", most-1))
		}
	}
	validateDistances(cells, c)
	most := 1
	if s.CPU.VCPUs != nil || s.CPU.Sockets != nil {
		most = s.CPU.MaxVCPUs()
	}
	without := withoutCell(cells, most)
	c.require(without == "" || !sets, cpuNUMA, without)
	if size := pick(s.Memory.Size, nil, 0); len(cells) > 0 && sizes && pick(s.Memory.MaxSize, nil, 0) == 0 {
		c.require(sum >= size, cpuNUMA, tooSmall(sum, size))
	}
	for key, cell := range ParseTable(s.Values["memory.numatune.cells"]) {
		path := join("memory.numatune.cells", key)
		c.require(cell["mode"] != "", path+".mode", "It must be declared.")
		c.require(cell["nodeset"] != "", path+".nodeset", "It must be declared.")
		c.require(len(cells) == 0 || cells[key] != nil, path, "cpu.numa has no such cell.")
	}
}

// withoutCell says which virtual CPUs are in no cell. libvirt would put them into the first cell, and each plan would
// undo that.
func withoutCell(cells map[string]Row, most int) string {
	var all, missing []int
	for _, cell := range cells {
		cpus, _ := parseSet(cell["cpus"])
		all = append(all, cpus...)
	}
	for cpu := range most {
		if !slices.Contains(all, cpu) {
			missing = append(missing, cpu)
		}
	}
	if len(cells) == 0 || len(missing) == 0 {
		return ""
	}
	return "Each virtual CPU needs a cell. None has " + formatSet(missing) + "."
}

func tooSmall(sum, size uint64) string {
	return fmt.Sprintf("The cells have %d MiB together, and memory.size is %d MiB.", sum/mib, size/mib)
}

// checkCells checks that the declared cells have all virtual CPUs and, together with plugged memory, all declared
// memory. libvirt makes the cells' total the VM's total.
func (d *Definition) checkCells(want Spec) error {
	cells := ParseTable(want.Values[cpuNUMA])
	sum := d.pluggedMemory()
	for _, cell := range cells {
		bytes, _ := strconv.ParseUint(cell["memory"], 10, 64)
		sum += bytes
	}
	if size := pick(want.Memory.Size, nil, 0); len(cells) > 0 && sum < size {
		return Problem{cpuNUMA, tooSmall(sum, size)}
	}
	most, _ := number(text(child(d.root(), "vcpu")))
	if without := withoutCell(cells, most); without != "" {
		return Problem{cpuNUMA, without}
	}
	return nil
}

// checkNumatune checks the binding that applies to all memory.
func checkNumatune(value func(attribute string) string) (attribute, problem string) {
	mode, nodes, auto := value("numatune.mode"), value("numatune.nodeset"), value("numatune.placement") == "auto"
	switch {
	case nodes != "" && auto:
		return "numatune.nodeset", "With placement auto the host chooses the nodes."
	case mode != "" && mode != None && nodes == "" && !auto:
		return "numatune.nodeset", "The mode needs nodes."
	case nodes != "" && (mode == "" || mode == None):
		return "numatune.mode", "The nodes need a mode."
	default:
		return "", ""
	}
}
