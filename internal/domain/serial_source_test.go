package domain

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSerials_changeWhatTheyAreConnectedTo: a port becomes each of the others, and nothing of the old one is left.
func TestSerials_changeWhatTheyAreConnectedTo(t *testing.T) {
	t.Parallel()
	for _, from := range rowsOf["devices.serials"] {
		for _, to := range rowsOf["devices.serials"] {
			d := parse(t, leastDefinition)
			if from.declared["target_type"] != to.declared["target_type"] {
				continue // That is another port.
			}
			for _, row := range []Row{from.declared, to.declared} {
				want := maps.Clone(row)
				for name := range from.declared {
					if _, said := want[name]; !said {
						want[name] = "" // As a plan says of what isn't declared any more.
					}
				}
				if err := d.Apply(Spec{Serials: map[string]Row{"a": want}}); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(to.read, d.Spec().Serials["a"]); diff != "" {
				t.Errorf("from %v to %v:\n%s\n%s", from.declared, to.declared, diff, output(t, d))
			}
		}
	}
}

// TestSerials_takePartsOfTheirHost: a host has its serial devices and its ports once, and QEMU opens a device when it
// starts.
func TestSerials_takePartsOfTheirHost(t *testing.T) {
	t.Parallel()
	s := Spec{Serials: map[string]Row{
		"dev":    {"type": "dev", "path": "/dev/ttyS2"},
		"server": {"type": "tcp", "mode": "bind", "host": "192.0.2.7", "service": "4001"},
		"all":    {"type": "tcp", "mode": "bind", "host": "0.0.0.0", "service": "4002"},
		"client": {"type": "tcp", "mode": "connect", "host": "192.0.2.7", "service": "4003"},
		"udp":    {"type": "udp", "host": "192.0.2.7", "service": "4004", "bind_host": "0.0.0.0", "bind_service": "4005"},
		"pty":    {"type": "pty"},
	}}
	want := map[HostPart]string{
		{SerialDevice, "/dev/ttyS2"}: "devices.serials.dev.path",
		{TCPPort, "192.0.2.7/4001"}:  "devices.serials.server.service",
		{TCPPort, "4002"}:            "devices.serials.all.service",
		{UDPPort, "4005"}:            "devices.serials.udp.bind_service",
	}
	d := parse(t, leastDefinition)
	if err := d.Apply(s); err != nil {
		t.Fatal(err)
	}
	for which, use := range map[string]HostUse{"declared": s.HostUse(), "defined": d.HostUse(d.Spec())} {
		if diff := cmp.Diff(want, use.Alone); diff != "" {
			t.Errorf("%s:\n%s", which, diff)
		}
	}
	other := Spec{Serials: map[string]Row{"a": {"type": "tcp", "mode": "bind", "host": "192.0.2.7", "service": "4002"}}}
	if shared := s.HostUse().Shared(other.HostUse()); shared != "TCP port 192.0.2.7/4002" {
		t.Errorf("both take %q", shared)
	}
	opened := []MobilePath{{"devices.serials.dev.path", "serial device", "/dev/ttyS2"}}
	if diff := cmp.Diff(opened, d.Mobility().Devices); diff != "" {
		t.Error(diff)
	}
}

// TestScreens_openRenderNodes: QEMU opens the card of each screen that draws with one.
func TestScreens_openRenderNodes(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><devices><graphics type="vnc"/>
  <graphics type="egl-headless"><gl rendernode="/dev/a"/></graphics>
  <graphics type="spice"><gl enable="yes" rendernode="/dev/b"/></graphics></devices></domain>`)
	want := []MobilePath{
		{"devices.second_graphics.rendernode", "render node", "/dev/b"},
		{"devices.egl_headless.rendernode", "render node", "/dev/a"},
	}
	if diff := cmp.Diff(want, d.Mobility().Devices); diff != "" {
		t.Error(diff)
	}
}

// TestAudio_followsTheScreen: the backend that libvirt chose goes with the screen that it needs. One that a user set up
// stays.
func TestAudio_followsTheScreen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ screen, audio, to, want string }{
		{"spice", `<audio id="1" type="spice"/>`, "vnc", None},
		{"vnc", `<audio id="1" type="none"/>`, "spice", "spice"},
		{"spice", `<audio id="1" type="none"/>`, "vnc", None},
		{"spice", `<audio id="1" type="alsa"/>`, "vnc", "alsa"},
		{"spice", `<audio id="1" type="spice" timerPeriod="9"/>`, "vnc", "spice"},
		{"vnc", "", "spice", ""},
	} {
		d := parse(t, `<domain><devices><graphics type="`+test.screen+`"/>`+test.audio+`</devices></domain>`)
		if err := d.Apply(Spec{Values: Values{"devices.graphics.type": test.to}}); err != nil {
			t.Fatal(err)
		}
		is := ""
		for _, e := range d.devices("audio") {
			is += attr(e, "type")
		}
		if is != test.want {
			t.Errorf("%v: it is %q", test, is)
		}
	}
}
