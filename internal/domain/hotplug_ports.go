package domain

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

const (
	// hotplugPorts is the attribute for the ports that devices are plugged into while the VM runs.
	hotplugPorts = "platform.hotplug_ports"
	// portAlias is the prefix of the aliases of these ports. libvirt adds other ports for devices that have none.
	portAlias = "ua-port-"
	maxPorts  = 128
	// usualPorts is how many of these ports a new VM has. KubeVirt keeps 6 of 16 free.
	usualPorts = "8"
)

// hotplugGroup are the PCI Express ports for devices that are plugged in later. Each port has room for one device.
var hotplugGroup = Group{
	Path: "platform",
	Attributes: []Attribute{{
		Name: "hotplug_ports", Kind: Count, Zero: true, Check: between(0, maxPorts),
		Why: "Ports are there from the start of the VM.",
		Read: func(root *etree.Element) string {
			if n := len(sparePorts(root)); n > 0 {
				return strconv.Itoa(n)
			}
			return ""
		},
		Write: writeHotplugPorts,
		Doc: "Number of free PCI Express ports for devices that are added while the VM runs. " +
			"Each added device takes one.",
		DefaultDoc: usualPorts + " for the machine types `q35` and `virt`",
	}},
}

// sparePorts returns the ports for hotplug, in order.
func sparePorts(root *etree.Element) []*etree.Element {
	var found []*etree.Element
	for _, e := range children(child(root, "devices"), "controller") {
		if strings.HasPrefix(attr(child(e, "alias"), "name"), portAlias) {
			found = append(found, e)
		}
	}
	return found
}

func writeHotplugPorts(root *etree.Element, value string) error {
	want, _ := number(value) // "" is none.
	devices := ensure(root, "devices")
	have, used := sparePorts(root), usedBuses(devices)
	for i := len(have) - 1; i >= 0 && len(have) > want; i-- {
		if index, _ := number(attr(have[i], "index")); !used[index] {
			drop(have[i])
			have = slices.Delete(have, i, i+1)
		}
	}
	if len(have) > want {
		return errors.New("devices are plugged into " + strconv.Itoa(len(have)) + " of these ports")
	}
	last, taken := 0, map[string]bool{}
	for _, e := range children(devices, "controller") {
		if index, _ := number(attr(e, "index")); attr(e, "type") == "pci" {
			last = max(last, index)
		}
		taken[attr(child(e, "alias"), "name")] = true
	}
	for n := 1; len(have) < want; n++ {
		name := portAlias + strconv.Itoa(n)
		if taken[name] {
			continue
		}
		last++
		port := rootPort(last)
		add(port, "alias", "name", name)
		insert(devices, port, "controller")
		have = append(have, port)
	}
	return nil
}

// usedBuses returns the numbers of the PCI buses that have a device.
func usedBuses(devices *etree.Element) map[int]bool {
	used := map[int]bool{}
	for _, e := range children(devices) {
		address := child(e, "address")
		if bus, ok := pciNumber(attr(address, "bus")); ok && attr(address, "type") == "pci" {
			used[bus] = true
		}
	}
	return used
}
