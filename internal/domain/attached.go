package domain

import "strings"

// Attachment describes how the definition attaches a network interface to the VM.
type Attachment struct {
	// Key is the interface's key, as in Spec.Interfaces.
	Key, MAC string
	// Device is the interface's device on the host, which libvirt names when the VM starts; "" if there is none.
	Device string
	LinkUp bool
	// Queues is the interface's number of queues: 1 unless it has several.
	Queues int
	// Network is the network whose bridge the interface is connected to, and Port the UUID of its port there. libvirt
	// gives it a port when the VM starts; both are "" if it has none, or if libvirt doesn't create the bridge.
	Network, Port string
}

// Attachments returns the VM's interfaces in the order of the definition.
func (d *Definition) Attachments() []Attachment {
	var all []Attachment
	for _, nic := range d.keyed(interfaceKind, d.recordedNames()) {
		e := nic.element
		a := Attachment{
			Key: nic.key, MAC: strings.ToLower(attr(child(e, "mac"), "address")), Device: attr(child(e, "target"), "dev"),
			LinkUp: attr(child(e, "link"), "state") != "down", Queues: countOrOne(attr(child(e, "driver"), "queues")),
		}
		// The running VM's interface has another type if the bridge is the host's.
		if port := attr(child(e, "source"), "portid"); port != "" && attr(e, "type") == "network" {
			a.Network, a.Port = attr(child(e, "source"), "network"), port
		}
		all = append(all, a)
	}
	return all
}

// BootMemory returns the memory, in bytes, that the VM started with or will start with: its memory without memory that
// was plugged in later. It is 0 if the definition doesn't say.
func (d *Definition) BootMemory() uint64 {
	installed, _ := size(child(d.root(), "memory"))
	for _, plugged := range d.devices("memory") {
		if bytes, ok := size(child(plugged, "target", "size")); ok {
			installed -= min(installed, bytes)
		}
	}
	return installed
}
