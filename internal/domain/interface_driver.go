package domain

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// driverRows are the attributes that tune the device that the guest sees.
var driverRows = []Attribute{
	{
		Name: "driver.name", Place: "driver@name", Values: []string{"vhost", "qemu"}, Unset: "default",
		Why: whenPlugged,
		Read: func(e *etree.Element) string {
			if attr(e, "type") == "hostdev" {
				return "" // This is the host's driver, which libvirt notes while the VM runs.
			}
			return attr(child(e, "driver"), "name")
		},
		DefaultDoc: "`vhost` if the host has it",
		Doc:        "What carries the packets: the host's kernel (`vhost`) or QEMU.",
	},
	{
		Name: "driver.rx_queue_size", Place: "driver@rx_queue_size", Kind: Count, Zero: true, Why: whenPlugged,
		Check: queueSize,
		Doc:   "Packets that a queue to the guest holds, a power of two from 256 to 1024; `0`: QEMU decides.",
	},
	{
		Name: "driver.tx_queue_size", Place: "driver@tx_queue_size", Kind: Count, Zero: true, Since: "3.7.0",
		Why: whenPlugged, Check: queueSize,
		Doc: "Packets that a queue from the guest holds. QEMU supports more than 256 only with `vhostuser` and " +
			"`vdpa`.",
	},
	{
		Name: "driver.txmode", Place: "driver@txmode", Values: []string{"iothread", "timer"}, Unset: "default",
		Why: whenPlugged,
		Doc: "How QEMU sends packets, without `vhost`.",
	},
	{
		Name: "driver.ioeventfd", Place: "driver@ioeventfd", Kind: Switch, On: "on", Off: "off", Why: whenPlugged,
		DefaultDoc: "QEMU's, which is `true`",
		Doc:        "Whether the guest continues while QEMU handles its packets. Change it only to work around a defect.",
	},
	{
		Name: "driver.event_idx", Place: "driver@event_idx", Kind: Switch, On: "on", Off: "off", Why: whenPlugged,
		DefaultDoc: "QEMU's, which is `true`",
		Doc: "Whether guest and host reduce their interrupts and notifications (virtio's `event_idx`). Change it only " +
			"to work around a defect.",
	},
	{
		Name: "driver.packed", Place: "driver@packed", Kind: Switch, On: "on", Off: "off", Since: "6.3.0", Why: whenPlugged,
		DefaultDoc: "`false`",
		Doc:        "Whether the queues are packed (virtio 1.1).",
	},
	{
		Name: "driver.iommu", Place: "driver@iommu", Kind: Switch, On: "on", Off: "off", Since: "3.5.0", Why: whenPlugged,
		DefaultDoc: "`false`",
		Doc:        "Whether the device obeys the guest's IOMMU.",
	},
}

// ofDriver reports whether an attribute belongs to virtio's driver.
func ofDriver(name string) bool { return name == "queues" || strings.HasPrefix(name, "driver.") }

// hasDriver reports whether an interface with that connection and model has virtio's driver, or may have it.
func hasDriver(connection, model string) bool {
	return connection != "hostdev" && (model == "" || strings.HasPrefix(model, "virtio"))
}

// onlyVirtio makes the attributes of the driver return an error for other models, for which libvirt drops them without
// an error.
func onlyVirtio(all []Attribute) []Attribute {
	for i, a := range all {
		if !ofDriver(a.Name) {
			continue
		}
		all[i].Write = func(e *etree.Element, value string) error {
			if value != "" && !hasDriver(attr(e, "type"), attr(child(e, "model"), "type")) {
				return errors.New("only the models of virtio have it")
			}
			return a.put(e, "", value)
		}
	}
	return all
}

// backendRows are the attributes of the backend of QEMU's user mode network.
var backendRows = []Attribute{
	{
		Name: "backend.type", Place: "backend@type", Values: []string{"passt"}, Unset: "default", Since: "9.0.0",
		Why: whenPlugged,
		Write: func(e *etree.Element, value string) error {
			dropChildren(e, "backend", "source", "portForward") // The settings belong to the old backend.
			if value != "" {
				add(e, "backend", "type", value)
			}
			return nil
		},
		Doc: "`passt` is a process on the host. It requires the package passt; Debian 12's libvirt doesn't support it. " +
			"`default` is QEMU itself.",
	},
	{
		Name: "backend.log_file", Place: "backend@logFile", Since: "9.0.0", Why: whenPlugged, Check: absolute,
		Doc: "File on the host for the log of passt. passt must be allowed to write it.",
	},
	{
		Name: "backend.device", Place: "source@dev", Since: "9.0.0", Why: whenPlugged,
		Read: func(e *etree.Element) string {
			if attr(e, "type") != "user" {
				return ""
			}
			return attr(child(e, "source"), "dev")
		},
		Write: func(e *etree.Element, value string) error {
			if value == "" {
				dropChildren(e, "source")
				return nil
			}
			setAttr(ensure(e, "source"), "dev", value)
			return nil
		},
		DefaultDoc: "that of the default route",
		Doc:        "Network device of the host whose addresses and routes passt gives to the guest.",
	},
}

// referToPair returns a transient interface with the new key of the persistent one that it names.
func referToPair(nic Interface, keys map[string]string) Interface {
	if is := nic.Values[pairedWith]; is != "" && keys[is] != "" {
		nic.Values = maps.Clone(nic.Values)
		nic.Values[pairedWith] = keys[is]
	}
	return nic
}

// joinRunningPair names, in an interface that is plugged in, the running persistent one by the alias that it was
// started with.
func joinRunningPair(p *stepper, e *etree.Element) {
	teaming := child(e, "teaming")
	key, ours := strings.CutPrefix(attr(teaming, "persistent"), interfaceKind.prefix)
	running := find(p.live, interfaceKind, p.keys[interfaceKind.path], key)
	if ours && running != nil && interfaceKind.alias(running) != "" {
		setAttr(teaming, "persistent", attr(child(running, "alias"), "name"))
	}
}

const pairedWith = "teaming.persistent"

// teamingRows are the attributes that make two interfaces a pair.
var teamingRows = []Attribute{
	{
		Name: "teaming.type", Place: "teaming@type", Values: []string{"persistent", "transient"}, Unset: None, Since: "6.1.0",
		Why: whenPlugged,
		Write: func(e *etree.Element, value string) error {
			dropChildren(e, "teaming")
			if value != "" {
				add(e, "teaming", "type", value)
			}
			return nil
		},
		Doc: "Role in a pair with the same `mac` (virtio's failover): the guest uses the `transient` interface, a device " +
			"of the host, and during a move the `persistent` one, of the model `virtio`.",
	},
	{
		Name: pairedWith, Since: "6.1.0", Why: whenPlugged,
		Read: func(e *etree.Element) string {
			return strings.TrimPrefix(attr(child(e, "teaming"), "persistent"), interfaceKind.prefix)
		},
		Write: func(e *etree.Element, value string) error {
			if value != "" && !strings.HasPrefix(value, "ua-") {
				value = interfaceKind.prefix + value
			}
			setAttr(child(e, "teaming"), "persistent", value)
			return nil
		},
		Doc: "For the `transient` interface: key of the `persistent` interface of the pair, or its alias (`ua-...`) " +
			"in an imported VM.",
	},
}

func queueSize(value string) string {
	if n, ok := number(value); ok && slices.Contains([]int{256, 512, 1024}, n) {
		return ""
	}
	return "It isn't 256, 512 or 1024."
}
