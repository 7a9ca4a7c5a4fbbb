package domain

import (
	"slices"

	"github.com/beevik/etree"
)

const audioWhy = "What the host does with sound is set up when the VM starts."

// audioType is the attribute that says what plays the sound.
const audioType = "devices.audio.type"

// The backends that libvirt chooses itself, with and without a screen by SPICE. That without sound is None.
const spiceAudio = "spice"

// audioGroup is what the host does with the sound of the VM: the first backend. libvirt adds one to every VM.
var audioGroup = Group{
	Path: "devices.audio", Device: "audio", Bus: busNone, Explicit: true,
	Doc: "What the host does with the sound of the sound card. Further backends aren't changed. Default for new VMs: " +
		"`spice` if they have a screen by SPICE, otherwise `none`.",
	Added:   Transition{Why: audioWhy},
	Removed: Transition{Why: audioWhy},
	begin:   func(e *etree.Element) { setAttr(e, "id", "1") },
	Attributes: []Attribute{
		{
			Name: "type", Place: "@type", Default: spiceAudio, Filled: true, Why: audioWhy,
			Since: "7.2.0", Values: []string{spiceAudio, "alsa", "pulseaudio", "pipewire", "jack", "oss", "file", "dbus", "sdl"},
			Kept: []string{"coreaudio"}, SinceOf: map[string]string{"dbus": "8.4.0", "pipewire": "9.10.0"},
			Write: func(e *etree.Element, value string) error {
				for _, a := range slices.Clone(e.Attr) {
					if a.Key != "id" {
						e.RemoveAttr(a.FullKey()) // It belongs to the old backend.
					}
				}
				dropChildren(e, "input", "output")
				setAttr(e, "type", value)
				return nil
			},
			Doc: "Backend: `dbus` (libvirt 8.4), `pipewire` (libvirt 9.10). Most require a package (Debian: " +
				"qemu-system-gui for `pulseaudio`, `jack`, `sdl`; Fedora: qemu-audio-alsa, ...).",
		},
		{
			Name: "path", Place: "@path", Follows: "type", Why: audioWhy, Check: absolute,
			Doc: "WAV file on the host that gets all that the VM plays, for the type `file`. Each start of the VM replaces it.",
		},
		{
			Name: "server_name", Place: "@serverName", Follows: "type", Why: audioWhy, DefaultDoc: "the user's own server",
			Doc: "Server of `pulseaudio`.",
		},
		audioDevice("input", "records from"),
		audioDevice("output", "plays on"),
	},
	Check: checkAudio,
	Beside: func(all Values) (attribute, problem string) {
		first, second := all["devices.graphics.type"], all[secondGraphics+".type"]
		if all[audioType] == spiceAudio && (first == None || first == "vnc") && (second == None || second == "vnc") {
			return "type", "It needs a screen by SPICE."
		}
		return "", ""
	},
}

// audioNames are the attributes with the name of a device or stream, by the backends that have one.
var audioNames = map[string]string{"alsa": "dev", "oss": "dev", "pulseaudio": "name", "pipewire": "name"}

// audioDevice is the device that a backend plays on or records from.
func audioDevice(direction, verb string) Attribute {
	return Attribute{
		Name: direction, Follows: "type", Why: audioWhy, DefaultDoc: "the backend's own",
		Read: func(e *etree.Element) string { return attr(child(e, direction), audioNames[attr(e, "type")]) },
		Write: func(e *etree.Element, value string) error {
			if key := audioNames[attr(e, "type")]; key != "" {
				setTextAt(e, direction+"@"+key, value)
			}
			return nil
		},
		Doc: "Device that it " + verb + ": of `alsa` and `oss` its name, such as `default` or `/dev/dsp`; of `pulseaudio` " +
			"and `pipewire`, the name of the sink or source.",
	}
}

func checkAudio(value func(string) string) (attribute, problem string) {
	kind := value("type")
	switch {
	case kind == "file" && value("path") == "":
		return "path", `The type "file" needs one.`
	case kind != "file" && value("path") != "":
		return "path", `Only the type "file" has one.`
	case kind != "pulseaudio" && value("server_name") != "":
		return "server_name", `Only the type "pulseaudio" has one.`
	}
	for _, direction := range []string{"input", "output"} {
		if value(direction) != "" && audioNames[kind] == "" {
			return direction, "Only the types alsa, oss, pulseaudio and pipewire have one."
		}
	}
	return "", ""
}

// followScreen makes the audio backend that libvirt chose follow the screens, unless one is declared: libvirt refuses
// that of SPICE in a VM without SPICE. was is the definition before the change.
func (d *Definition) followScreen(was *Definition, want Values) {
	if had := was.hasSPICE(); had == d.hasSPICE() || groupAt(audioGroup.Path).isDeclared(want) {
		return
	}
	backends := d.devices("audio")
	if len(backends) != 1 {
		return
	}
	e := backends[0]
	switch kind := attr(e, "type"); {
	case len(e.Attr) > 2 || len(e.ChildElements()) > 0: // A user has set it up.
	case kind == spiceAudio && !d.hasSPICE():
		setAttr(e, "type", None)
	case kind == None && d.hasSPICE():
		setAttr(e, "type", spiceAudio)
	}
}

// hasSPICE reports whether the VM has a screen by SPICE.
func (d *Definition) hasSPICE() bool {
	return slices.ContainsFunc(d.devices("graphics"), func(e *etree.Element) bool { return attr(e, "type") == "spice" })
}
