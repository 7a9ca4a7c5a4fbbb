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
		switch {
		case !differs(c.have.GuestAgent, c.want.GuestAgent):
		case !*c.want.GuestAgent:
			c.add("guest_agent", "guest_agent removed", "")
		case !c.hasBus(busSerial):
			c.add("guest_agent", "guest_agent no bus", "")
		default:
			c.add("guest_agent", "guest_agent added", "")
		}
	},
	step: func(p *stepper, c change) {
		from := p.live
		if c.step == Attach {
			from = p.persistent
		}
		for _, e := range from.agentChannels() {
			e = e.Copy()
			if c.step == Attach {
				dropChildren(e, "address") // The address may be taken in the running domain.
			}
			p.step(Step{Kind: c.step, Path: c.Path, XML: render(e)})
		}
	},
}

var agentRules = map[string]rule{
	"guest_agent added": {
		effect: live, step: Attach, why: "The agent's channel is plugged into the running VM.",
	},
	"guest_agent removed": {
		effect: live, step: Detach, why: "The agent's channel is unplugged from the running VM.",
	},
	"guest_agent no bus": {effect: restart, why: "The running VM has no controller for channels."},
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

// applyGuestAgent adds or removes the guest agent's channel.
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

// consoles returns the serial ports and consoles that `virsh console` can open. Consoles on virtio are excluded: they
// have keys.
func (d *Definition) consoles() []*etree.Element {
	return slices.DeleteFunc(d.devices("serial", "console"), func(e *etree.Element) bool {
		return !IsInteractive(attr(e, "type")) || e.Tag == "console" && onVirtio(e)
	})
}

// IsInteractive reports whether `virsh console` can open a serial port of that type.
func IsInteractive(kind string) bool { return kind == "pty" || kind == "unix" }

// usesVirtioSerial reports whether devices of the VM are attached to a virtio-serial controller.
func (d *Definition) usesVirtioSerial() bool {
	return slices.ContainsFunc(d.devices("channel", "console"), onVirtio)
}

// applySerialConsole adds or removes a serial port and its console. Ports with another source, such as a file, stay.
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
		if others := len(d.devices("serial", "console")) - 1; others == 0 {
			// If there is another serial port, libvirt derives the console itself, and requires it to be the first.
			add(console, "target", "type", "serial", "port", "0")
			d.addDevice(console)
		}
	}
}

// AgentConnected reports whether a running domain's guest agent has opened its channel. It doesn't say whether the
// agent answers.
func (d *Definition) AgentConnected() bool {
	return slices.ContainsFunc(d.agentChannels(), func(e *etree.Element) bool {
		return attr(child(e, "target"), "state") == "connected"
	})
}
