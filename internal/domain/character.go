package domain

import (
	"slices"

	"github.com/beevik/etree"
)

// agentChannel is the name of the port that the QEMU guest agent listens on.
const agentChannel = "org.qemu.guest_agent.0"

// agentBlock is the channel of the guest agent.
var agentBlock = block{
	rules: agentRules,
	read:  func(d *Definition, s *Spec) { s.GuestAgent = new(len(d.agentChannels()) > 0) },
	apply: func(d *Definition, want Spec) error { d.applyGuestAgent(want.GuestAgent); return nil },
	classify: func(c *classifier) {
		if differs(c.have.GuestAgent, c.want.GuestAgent) {
			c.add("guest_agent", "guest_agent", "")
		}
	},
}

var agentRules = map[string]rule{
	"guest_agent": {effect: restart, why: "The channel of the guest agent is set up when the VM starts."},
}

// consoleBlock is the serial console.
var consoleBlock = block{
	rules: consoleRules,
	read:  func(d *Definition, s *Spec) { s.SerialConsole = new(len(d.consoles()) > 0) },
	apply: func(d *Definition, want Spec) error { d.applySerialConsole(want.SerialConsole); return nil },
	classify: func(c *classifier) {
		if differs(c.have.SerialConsole, c.want.SerialConsole) {
			c.add("serial_console", "serial_console", "")
		}
	},
}

var consoleRules = map[string]rule{
	"serial_console": {effect: restart, why: "The serial port is set up when the VM starts."},
}

// agentChannels returns the channels of the guest agent.
func (d *Definition) agentChannels() []*etree.Element {
	return slices.DeleteFunc(d.devices("channel"), func(e *etree.Element) bool {
		target := child(e, "target")
		return attr(target, "type") != "virtio" || attr(target, "name") != agentChannel
	})
}

// applyGuestAgent adds or removes the channel.
func (d *Definition) applyGuestAgent(want *bool) {
	have := d.agentChannels()
	if want == nil || *want == (len(have) > 0) {
		return
	}
	for _, e := range have {
		drop(e)
	}
	if *want {
		channel := element("channel", "type", "unix")
		add(channel, "target", "type", "virtio", "name", agentChannel)
		d.addDevice(channel)
	}
}

// consoles returns the serial ports and consoles that `virsh console` can open.
func (d *Definition) consoles() []*etree.Element {
	return slices.DeleteFunc(d.devices("serial", "console"), func(e *etree.Element) bool {
		kind := attr(e, "type")
		return kind != "pty" && kind != "unix"
	})
}

// applySerialConsole adds or removes serial port and console. Ports that lead elsewhere, to a file say, stay.
func (d *Definition) applySerialConsole(want *bool) {
	have := d.consoles()
	if want == nil || *want == (len(have) > 0) {
		return
	}
	for _, e := range have {
		drop(e)
	}
	if *want {
		d.addDevice(element("serial", "type", "pty"))
		console := element("console", "type", "pty")
		if others := len(d.devices("serial")) - 1; others == 0 {
			// Beside another serial port libvirt derives the console itself.
			add(console, "target", "type", "serial", "port", "0")
			d.addDevice(console)
		}
	}
}

// AgentConnected says whether a running domain's guest agent has opened its channel. It tells nothing of whether the
// agent answers.
func (d *Definition) AgentConnected() bool {
	return slices.ContainsFunc(d.agentChannels(), func(e *etree.Element) bool {
		return attr(child(e, "target"), "state") == "connected"
	})
}
