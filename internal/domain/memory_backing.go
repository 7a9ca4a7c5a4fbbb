package domain

import (
	"slices"
	"strconv"

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
	Attributes: slices.Concat(hugePageSizes, []Attribute{
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
