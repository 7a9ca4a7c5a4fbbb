package domain

import (
	"slices"

	"github.com/beevik/etree"
)

const channelWhy = "The channel is another one."

// channelFamily are the channels between guest and host, except that of the guest agent.
var channelFamily = Family{
	Path: "devices.channels", Tag: "channel", in: func(s *Spec) *map[string]Row { return &s.Channels },
	Doc: "Channels between guest and host (virtio) by a key, in addition to that of the guest agent. If you set the " +
		"map, list every channel.",
	Added:   Transition{Live: true, Why: "The channel is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The channel is unplugged from the running VM."},
	Bus:     busSerial,
	Skip: func(e *etree.Element) bool {
		target := child(e, "target")
		return attr(target, "type") != "virtio" || attr(target, "name") == agentChannel
	},
	begin: func(e *etree.Element) { add(e, "target", "type", "virtio") },
	Attributes: slices.Concat(
		charSource(channelWhy, []string{"unix", "pty", "file", "spicevmc", "qemu-vdagent", "null"},
			"File or socket on the host, for the types `file` and `unix`. For a `unix` socket, libvirt can choose the path."),
		[]Attribute{{
			Name: "name", Place: "target@name", Why: channelWhy,
			Doc: "Required: name of the port, by which the guest finds it (`/dev/virtio-ports/...`), such as " +
				"`com.redhat.spice.0` for `spicevmc` and `qemu-vdagent`.",
		}},
	),
	Check: func(value func(string) string) (attribute, problem string) {
		switch value("name") {
		case "":
			return "name", "It must be declared."
		case agentChannel:
			return "name", "The agent's channel is guest_agent.enabled."
		default:
			return checkChar(value)
		}
	},
}
