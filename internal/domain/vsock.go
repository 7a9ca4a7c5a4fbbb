package domain

import (
	"strconv"

	"github.com/beevik/etree"
)

const (
	// minCID is the first address that isn't reserved. maxCID is the last one: the address after it means any address.
	minCID = 3
	maxCID = 1<<32 - 2

	vsockCID = "devices.vsock.cid"

	// Vsock is the path of the socket device between guest and host.
	Vsock = "devices.vsock"
	// VhostVsock is the host's device that libvirt opens for a VM with a vsock device. The kernel's module makes it.
	VhostVsock = "/dev/vhost-vsock"
	// VsockRemedy is the remedy for a host whose kernel has no sockets between guests and host.
	VsockRemedy = "Load the kernel's module on the host, with \"modprobe vhost_vsock\", and name it in " +
		"/etc/modules-load.d. Or choose a host that has it, or remove vsock."
)

// HasVsock reports whether a VM with these values has a vsock device.
func (f Values) HasVsock() bool { return groupAt(Vsock).Has(f) }

// VsockCID returns the address of a running VM's vsock device, "" if it has none.
func (d *Definition) VsockCID() string { return textAt(vsockGroup.element(d), "cid@address") }

// vsockGroup is the socket device between guest and host.
var vsockGroup = Group{
	Path: Vsock, Device: "vsock", Bus: busPCI,
	Doc: "Sockets between guest and host (`AF_VSOCK`), without a network. The host's kernel needs the module " +
		"`vhost_vsock`.",
	Added:   Transition{Live: true, Why: "The device is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The device is unplugged from the running VM."},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"virtio", "virtio-transitional", "virtio-non-transitional"},
			Default: "virtio", Filled: true,
			Why: "A device of another model can't replace one in use.",
			Doc: "Model.",
		},
		{
			Name: "cid", Default: Auto, Filled: true, Why: "The address is set when the device is plugged in.",
			Read: func(e *etree.Element) string {
				if textAt(e, "cid@auto") == "yes" {
					return Auto
				}
				return textAt(e, "cid@address")
			},
			Write: func(e *etree.Element, value string) error {
				automatic := "no"
				switch value {
				case Auto:
					value, automatic = "", "yes"
				case "":
					automatic = ""
				}
				setTextAt(e, "cid@auto", automatic)
				setTextAt(e, "cid@address", value)
				return nil
			},
			Check: func(value string) string {
				if n, err := strconv.ParseUint(value, 10, 64); value != Auto && (err != nil || n < minCID || n > maxCID) {
					return strconv.Quote(value) + ` is neither a number from 3 nor "auto".`
				}
				return ""
			},
			Doc: "The guest's address (context id), from 3, or `auto` for one that is free when the VM starts. A fixed one " +
				"must be free on the VM's host.",
		},
	},
}
