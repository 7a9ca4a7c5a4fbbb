package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// expectConsoleOutput expects `virsh console` to show what the guest writes to its first serial port.
func expectConsoleOutput(t *testing.T, l *lab.Lab, host, name string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		inGuest(t, l, host, name, "for i in $(seq 300); do echo seen $i >/dev/ttyS0; sleep 1; done")
		l.Run(t, host, "bash", "-c",
			`timeout 100 script -qec "virsh -c qemu:///system console $1" /dev/null | grep -a -m1 "seen [0-9]"`, "console", name)
		return nil
	}
}

// TestAccDefaults_life: a VM that declares no devices has those that people expect. The guest's agent answers, and
// `virsh console` opens its serial port. Afterwards they are the user's: what is undeclared and removed by hand is no
// drift, and nothing is added to it.
func TestAccDefaults_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	config := guest(l, name).with(hcl{
		"host": quote("kvm1"), "interfaces": `{ lan = { user = true } }`,
		"wait_for": `{ guest_agent = true, timeout = "5m" }`,
	})
	devices := []string{
		"<channel type='unix'", "name='org.qemu.guest_agent.0'", "<serial type='pty'", "<target type='isa-serial'",
		"<console type='pty'", "<rng model='virtio'>", "<memballoon model='virtio'>", "<stats period='10'/>",
	}
	step := func(change hcl, action plancheck.ResourceActionType, checks ...resource.TestCheckFunc) resource.TestStep {
		config = config.with(change)
		return resource.TestStep{
			Config: acctest.OneHost(l) + config.String(), ConfigPlanChecks: changes(action),
			Check: resource.ComposeAggregateTestCheckFunc(checks...),
		}
	}
	created := step(nil, plancheck.ResourceActionCreate, look(t, l, "kvm1", name, devices...),
		expectConsoleOutput(t, l, "kvm1", name))
	created.ConfigStateChecks = append(created.ConfigStateChecks, know("guest_agent.enabled", knownvalue.Bool(true)),
		know("serial_console.enabled", knownvalue.Bool(true)), know("devices", knownvalue.Null()),
		know("ready", knownvalue.Bool(true)))
	off := step(hcl{"run_strategy": quote("Halted"), "wait_for": ""}, plancheck.ResourceActionUpdate)
	byHand := step(nil, plancheck.ResourceActionNoop,
		lacks(t, l, "kvm1", name, "org.qemu.guest_agent.0", "<serial", "<console"))
	byHand.PreConfig = func() {
		l.Define(t, "kvm1", without(t, l.Virsh(t, "kvm1", "dumpxml", "--inactive", name), "channel", "serial", "console"))
	}
	// A change of something else gives it nothing back.
	labelled := step(hcl{"labels": `{ app = "web" }`}, plancheck.ResourceActionUpdate,
		lacks(t, l, "kvm1", name, "org.qemu.guest_agent.0", "<serial", "<console"))
	story(t, l, []string{name}, created, off, byHand, labelled)
}

// without is a definition without its devices of some kinds.
func without(t *testing.T, xml string, tags ...string) string {
	t.Helper()
	for _, tag := range tags {
		before, rest, found := strings.Cut(xml, "<"+tag+" ")
		_, after, ended := strings.Cut(rest, "</"+tag+">")
		if !found || !ended {
			t.Fatalf("no <%s> in:\n%s", tag, xml)
		}
		xml = before + after
	}
	return xml
}

// TestAccDefaults_leftOut: each default can be left out of a new VM. A VM that was made otherwise gets none of them.
func TestAccDefaults_leftOut(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	names := map[string]string{}
	for _, key := range []string{"bare", "ports", "windows", "imported", "old"} {
		names[key] = lab.Name(t) + "-" + key
		l.RemoveDomain(t, names[key])
	}
	tf := acctest.NewCLI(t)
	off := func(key string) hcl {
		return idleVM(l, names[key]).with(hcl{"host": quote("kvm1"), "run_strategy": quote("Halted")})
	}
	l.Define(t, "kvm1", `<domain type="qemu"><name>`+names["imported"]+`</name><memory unit="MiB">64</memory>
  <os><type arch="x86_64">hvm</type></os></domain>`)
	tf.Config(t, acctest.OneHost(l)+off("imported").named("imported"))
	tf.Run(t, "import", address[:strings.LastIndex(address, ".")]+".imported", names["imported"])
	tf.Config(t, acctest.OneHost(l)+off("imported").named("imported")+
		off("bare").with(hcl{
			"guest_agent": `{ enabled = false }`, "memory": `{ size = "64Mi", balloon = { model = "none" } }`,
			"devices": `{ serials = {}, rng = { model = "none" } }`,
		}).named("bare")+
		off("ports").with(hcl{"devices": `{ serials = { log = { type = "null" } }, consoles = {} }`}).named("ports")+
		off("windows").with(hcl{"profile": quote("windows-10")}).named("windows")+
		off("old").with(hcl{"machine_type": quote("pc")}).named("old"))
	tf.Run(t, "apply")
	const channel = "org.qemu.guest_agent.0"
	for key, test := range map[string]struct{ has, lacks []string }{
		"bare":     {lacks: []string{channel, "<serial", "<console", "<rng"}},
		"ports":    {has: []string{channel, "<serial type='null'>"}, lacks: []string{"<serial type='pty'"}},
		"windows":  {has: []string{"<rng"}, lacks: []string{channel, "<serial", "<console"}},
		"imported": {lacks: []string{channel, "<serial", "<console", "<rng"}},
		"old":      {has: []string{channel, "<serial type='pty'>", "isa-serial", "<console", "<rng"}},
	} {
		if err := look(t, l, "kvm1", names[key], test.has...)(nil); err != nil {
			t.Error(key, err)
		}
		if err := lacks(t, l, "kvm1", names[key], test.lacks...)(nil); err != nil {
			t.Error(key, err)
		}
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, names["bare"], names["ports"], names["windows"], names["imported"], names["old"])
}
