package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccScreens_life: a running VM has a screen by VNC, one by SPICE, and a card of the host that draws for them. It
// is imported with the configuration that Terraform writes. What a user changes by hand is in the plan and repaired,
// and each of them is removed by itself. A host without the card is no target of a move. The lab has no card: Mesa
// draws without one, whatever the file is that it is given.
func TestAccScreens_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	const card = "/dev/null"
	tf := acctest.NewCLI(t)
	process := &started{l: l, host: host, name: name}
	config := tinyVM(name).with(hcl{"host": quote(host), "devices": `{ graphics = { type = "vnc" } }`})
	write := func(devices string) {
		t.Helper()
		config = config.with(hcl{"devices": "{ " + devices + " }"})
		tf.Config(t, acctest.OneHost(l)+config.String())
	}
	seen := func(parts ...string) {
		t.Helper()
		if err := look(t, l, host, name, parts...)(nil); err != nil {
			t.Error(err)
		}
	}
	gone := func(parts ...string) {
		t.Helper()
		if err := lacks(t, l, host, name, parts...)(nil); err != nil {
			t.Error(err)
		}
	}
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	gone("spice", "egl-headless")

	const screens = `graphics = { type = "vnc" }, second_graphics = { listen = "none", keymap = "de" }`
	drawn := fmt.Sprintf(`, egl_headless = { rendernode = %q }`, card)
	write(screens + drawn)
	expect(t, tf.Fail(t, "plan"), "Change needs a restart", "devices.second_graphics: The screen's server is set up",
		"devices.egl_headless: ")
	write(`graphics = { type = "spice" }, second_graphics = {}`)
	expect(t, tf.Run(t, "validate"), "valid") // What a screen is by default isn't known before.
	write(`graphics = { type = "spice" }, second_graphics = { type = "spice" }`)
	expect(t, tf.Fail(t, "validate"), "QEMU has one screen of each protocol")
	write(`second_graphics = { gl = true }, egl_headless = {}`)
	expect(t, tf.Fail(t, "validate"), "QEMU draws with one card")

	config = config.with(hcl{"update_policy": quote("Restart")})
	write(strings.Replace(screens+drawn, card, card+"-missing", 1))
	expect(t, tf.Fail(t, "plan"), `it has no render node "`+card+`-missing"`)
	write(screens + drawn)
	tf.Run(t, "apply")
	noChanges(t, tf)
	seen("<graphics type='vnc'", "<graphics type='spice' keymap='de'>", "<listen type='none'/>",
		"<graphics type='egl-headless'>", "<gl rendernode='"+card+"'/>")
	if err := process.restarted(t)(nil); err != nil {
		t.Error(err)
	}

	tf.Run(t, "state", "rm", address)
	tf.Config(t, acctest.OneHost(l)+fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", address, name))
	change := tf.Plan(t, "-generate-config-out="+filepath.Join(tf.Dir, "generated.tf"))[address]
	if change.Actions != "no-op" {
		t.Errorf("an import does %q", change.Actions)
	}
	for at, want := range map[string]string{
		"second_graphics.type": "spice", "second_graphics.keymap": "de", "egl_headless.rendernode": card,
	} {
		if is := attributeAt(change.After, "devices."+at); is != want {
			t.Errorf("%s is imported as %v", at, is)
		}
	}
	tf.Run(t, "apply")
	if err := os.Remove(filepath.Join(tf.Dir, "generated.tf")); err != nil {
		t.Fatal(err)
	}
	write(screens + drawn)
	tf.Run(t, "apply")
	noChanges(t, tf)

	l.Define(t, host, strings.NewReplacer("keymap='de'", "keymap='fr'", "rendernode='"+card+"'", "rendernode='/dev/zero'").
		Replace(l.Virsh(t, host, "dumpxml", "--inactive", name)))
	expectDiffers(t, tf.Plan(t)[address], []edit{
		{seen: "devices.second_graphics.keymap"}, {seen: "devices.egl_headless.rendernode"},
	})
	tf.Run(t, "apply")
	noChanges(t, tf)
	seen("keymap='de'", "rendernode='"+card+"'")

	write(`graphics = { type = "vnc" }, second_graphics = { type = "none" }`)
	tf.Run(t, "apply")
	noChanges(t, tf)
	gone("<graphics type='spice'")
	seen("<graphics type='egl-headless'>")
	write(`egl_headless = { type = "none" }`)
	tf.Run(t, "apply")
	noChanges(t, tf)
	gone("egl-headless")
	seen("<graphics type='vnc'")
	destroyAndCheck(t, l, tf, name)
}
