package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccAudio_life: a VM's sound is heard where its screen is, as long as nothing is declared: libvirt refuses SPICE's
// backend in a VM whose screen is by VNC. Then it goes to a file and to a sound system of the host, drift is repaired,
// and it ends.
func TestAccAudio_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	file := "/var/lib/libvirt/qemu/" + name + ".wav"
	tf := acctest.NewCLI(t)
	config := tinyVM(name).with(hcl{"host": quote(host), "update_policy": quote("Restart")})
	write := func(devices string) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+config.with(hcl{"devices": "{ sound = {}, " + devices + " }"}).String())
	}
	apply := func(devices string, parts ...string) {
		t.Helper()
		write(devices)
		tf.Run(t, "apply")
		noChanges(t, tf)
		if err := look(t, l, host, name, parts...)(nil); err != nil {
			t.Error(err)
		}
	}
	apply(`graphics = { type = "spice" }`, "<audio id='1' type='spice'/>")
	apply(`graphics = { type = "vnc" }`, "<graphics type='vnc'", "<audio id='1' type='none'/>")
	apply(`graphics = { type = "vnc" }, second_graphics = {}`, "<graphics type='spice'", "<audio id='1' type='spice'/>")
	apply(`graphics = { type = "vnc" }, second_graphics = { type = "none" }`, "<audio id='1' type='none'/>")
	write(`graphics = { type = "vnc" }, second_graphics = { type = "none" }, audio = { type = "spice" }`)
	expect(t, tf.Fail(t, "validate"), "It needs a screen by SPICE")
	write(`audio = { type = "pipewire" }`)
	expect(t, tf.Fail(t, "plan"), `devices.audio.type = "pipewire" needs libvirt 9.10.0, it has 9.0.0`)

	apply(`audio = { type = "file", path = "`+file+`" }`, "<audio id='1' type='file' path='"+file+"'/>")
	l.Run(t, host, "test", "-f", file) // QEMU has created it.
	apply(`audio = { type = "alsa", output = "null" }`, "<audio id='1' type='alsa'>", "<output dev='null'/>")
	l.Define(t, host, strings.Replace(l.Virsh(t, host, "dumpxml", "--inactive", name), "dev='null'", "dev='front'", 1))
	expectDiffers(t, tf.Plan(t)[address], []edit{{seen: "devices.audio.output"}})
	apply(`audio = { type = "alsa", output = "null" }`, "<output dev='null'/>")
	apply(`audio = { type = "none" }`, "<audio id='1' type='none'/>")
	write(`graphics = { type = "spice" }, audio = { type = "none" }`)
	tf.Run(t, "apply", "-replace="+address) // A new VM has at once what is declared.
	noChanges(t, tf)
	if err := look(t, l, host, name, "<graphics type='spice'", "<audio id='1' type='none'/>")(nil); err != nil {
		t.Error(err)
	}
	l.Run(t, host, "rm", file)
	destroyAndCheck(t, l, tf, name)
}
