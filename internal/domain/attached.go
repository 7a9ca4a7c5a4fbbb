package domain

import "strings"

// Attachment is how a network interface is attached to the VM, as the definition says.
type Attachment struct {
	// Key is the interface's key, as in Spec.Interfaces.
	Key, MAC string
	// Device is the host's end, which libvirt names when the VM starts; "" is none.
	Device string
	LinkUp bool
	// Queues is the number of its queues, 1 unless there are several.
	Queues int
}

// Attachments are the VM's interfaces, in the order of the definition.
func (d *Definition) Attachments() []Attachment {
	var all []Attachment
	for _, nic := range d.keyed(interfaceKind, d.Metadata().Devices) {
		e := nic.element
		all = append(all, Attachment{
			Key: nic.key, MAC: strings.ToLower(attr(child(e, "mac"), "address")), Device: attr(child(e, "target"), "dev"),
			LinkUp: attr(child(e, "link"), "state") != "down", Queues: positive(attr(child(e, "driver"), "queues")),
		})
	}
	return all
}

// BootMemory is the memory that the VM started, or will start, with, in bytes: what it has without the memory that was
// plugged in. It is 0 for a definition that doesn't say.
func (d *Definition) BootMemory() uint64 {
	installed, _ := size(child(d.root(), "memory"))
	for _, plugged := range d.devices("memory") {
		if bytes, ok := size(child(plugged, "target", "size")); ok {
			installed -= min(installed, bytes)
		}
	}
	return installed
}
