package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// lacks is a check of both definitions that the host has: none of the parts is in them.
func lacks(t *testing.T, l *lab.Lab, host, name string, parts ...string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		both := l.Virsh(t, host, "dumpxml", "--inactive", name) + l.Virsh(t, host, "dumpxml", name)
		for _, part := range parts {
			if strings.Contains(both, part) {
				return fmt.Errorf("%q is in:\n%s", part, both)
			}
		}
		return nil
	}
}

// TestAccSingletons_life: the devices of which a VM has one, its title, its description and what happens when its guest
// ends, through everything that can become of them.
func TestAccSingletons_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	process := &started{l: l, host: "kvm1", name: name}
	config := hcl{
		"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`, "host": quote("kvm1"),
		"termination_grace_period": quote("0s"), // It has nothing to boot that could shut down.
	}
	step := func(change hcl, action plancheck.ResourceActionType, check resource.TestCheckFunc,
		know ...statecheck.StateCheck,
	) resource.TestStep {
		config = config.with(change)
		return resource.TestStep{
			Config: config.withHosts(l, change), ConfigPlanChecks: changes(action), Check: check,
			ConfigStateChecks: know,
		}
	}
	both := resource.ComposeAggregateTestCheckFunc
	story(t, l, []string{name},
		// What isn't declared is in no plan and in no state.
		func() resource.TestStep {
			s := step(nil, plancheck.ResourceActionCreate,
				both(process.same(t), look(t, l, "kvm1", name, "<on_crash>restart<")),
				know("devices", knownvalue.Null()), know("platform", knownvalue.Null()), know("title", knownvalue.Null()))
			s.ConfigPlanChecks = changes(plancheck.ResourceActionCreate, planned("devices", knownvalue.Null()),
				planned("platform", knownvalue.Null()), planned("title", knownvalue.Null()))
			return s
		}(),
		// Title, description and lifecycle actions are changed while it runs.
		step(hcl{
			"title": quote("A title"), "description": `"Two\nlines <&>"`,
			"platform": `{ events = { on_crash = "preserve", on_reboot = "destroy" } }`,
		}, plancheck.ResourceActionUpdate, both(process.same(t), look(t, l, "kvm1", name, "<title>A title</title>",
			"Two\nlines &lt;&amp;&gt;", "<on_crash>preserve<", "<on_reboot>destroy<")),
			know("platform.events.on_poweroff", exactly("destroy"))),
		// A source of random numbers is there and taken as it is; how fast it is needs a restart.
		step(hcl{"devices": `{ rng = {} }`}, plancheck.ResourceActionUpdate,
			both(process.same(t), look(t, l, "kvm1", name, "/dev/urandom")),
			know("devices.rng.model", exactly("virtio")), know("devices.rng.backend", exactly("random")),
			know("devices.rng.rate_bytes", knownvalue.Null()), know("devices.tpm", knownvalue.Null())),
		// A TPM and a watchdog are refused while it runs, and said so by the plan.
		resource.TestStep{
			Config: acctest.OneHost(l) + config.with(hcl{
				"devices": `{ rng = {}, tpm = { version = "2.0" }, watchdog = { action = "pause" } }`,
			}).String(),
			ExpectError: inOrder("Change needs a restart", "devices.tpm: A TPM can be added only when the VM starts.",
				"devices.watchdog: The running VM has no conventional PCI bus with a free slot"),
		},
		step(hcl{
			"devices":       `{ rng = { rate_bytes = 2048 }, tpm = { version = "2.0" }, watchdog = { action = "pause" } }`,
			"update_policy": quote("Restart"),
		}, plancheck.ResourceActionUpdate, both(process.restarted(t), look(t, l, "kvm1", name, "<tpm model='tpm-crb'>",
			"<backend type='emulator' version='2.0'", "<watchdog model='i6300esb' action='pause'", "<rate bytes='2048'")),
			know("devices.tpm.model", exactly("tpm-crb")), know("devices.tpm.backend", exactly("emulator")),
			know("devices.watchdog.model", exactly("i6300esb"))),
		// The VM moves with all of them while it runs, and the TPM's state with it.
		step(hcl{"host": quote("kvm2")}, plancheck.ResourceActionUpdate,
			look(t, l, "kvm2", name, "<tpm model='tpm-crb'>", "<watchdog model='i6300esb'", "<title>A title</title>")),
		// What a user changes by hand is seen and put right.
		func() resource.TestStep {
			s := step(nil, plancheck.ResourceActionUpdate, look(t, l, "kvm2", name, "<title>A title</title>",
				"<on_crash>preserve<"))
			s.PreConfig = func() {
				l.Virsh(t, "kvm2", "desc", name, "--live", "--config", "--title", "Another title")
				l.Virsh(t, "kvm2", "set-lifecycle-action", name, "crash", "destroy", "--live", "--config")
			}
			return s
		}(),
		func() resource.TestStep {
			s := step(nil, plancheck.ResourceActionUpdate, look(t, l, "kvm2", name, "<tpm model='tpm-crb'>"))
			s.PreConfig = func() {
				xml := l.Virsh(t, "kvm2", "dumpxml", "--inactive", name)
				begin, end := strings.Index(xml, "<tpm"), strings.Index(xml, "</tpm>")
				l.Define(t, "kvm2", xml[:begin]+xml[end+len("</tpm>"):])
			}
			return s
		}(),
		// What isn't declared any more is left alone.
		step(hcl{"devices": `{ tpm = {} }`, "platform": `null`, "title": `null`}, plancheck.ResourceActionNoop,
			look(t, l, "kvm2", name, "<watchdog model='i6300esb'", "<title>A title</title>")),
		// What is declared not to be there goes.
		step(hcl{
			"devices": `{ tpm = { model = "none" }, rng = { model = "none" }, watchdog = { model = "none" } }`,
			"title":   quote(""), "description": quote(""),
		}, plancheck.ResourceActionUpdate, lacks(t, l, "kvm2", name, "<tpm", "<rng", "<watchdog", "<title", "<description"),
			know("devices.tpm.model", exactly("none")), know("devices.tpm.version", knownvalue.Null())),
	)
}

// TestAccSingletons_imported: what another tool gave a VM is imported as it is, into an empty plan, and another title
// touches nothing else.
func TestAccSingletons_imported(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><title>By hand</title>
  <memory unit="MiB">64</memory><os><type arch="x86_64" machine="pc">hvm</type></os>
  <on_poweroff>restart</on_poweroff><on_crash>coredump-destroy</on_crash>
  <devices><tpm model="tpm-tis"><backend type="emulator" version="1.2"/></tpm><watchdog model="ib700" action="dump"/>
    <rng model="virtio"><rate bytes="10" period="20"/><backend model="egd" type="udp">
      <source mode="connect" host="127.0.0.1" service="708"/></backend></rng>
    <rng model="virtio"><backend model="builtin"/></rng></devices></domain>`, name))
	before := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
	config := hcl{"name": quote(name), "run_strategy": quote("Halted")}
	imported := config.with(hcl{
		"title":    quote("By hand"),
		"platform": `{ events = { on_poweroff = "restart", on_reboot = "restart", on_crash = "coredump-destroy" } }`,
		"devices": `{
    tpm      = { model = "tpm-tis", backend = "emulator", version = "1.2" }
    watchdog = { model = "ib700", action = "dump" }
    rng      = { model = "virtio", backend = "egd", rate_bytes = 10, rate_period = 20 }
  }`,
	})
	unchanged := func(replaced ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			now := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
			if begin, end := strings.Index(now, "<metadata>"), strings.Index(now, "</metadata>"); begin > 0 {
				now = now[:begin] + strings.TrimLeft(now[end+len("</metadata>"):], " \n")
			}
			want := strings.NewReplacer(replaced...).Replace(before)
			if strings.Join(strings.Fields(now), " ") != strings.Join(strings.Fields(want), " ") {
				return fmt.Errorf("it was\n%s\nand is\n%s", want, now)
			}
			return nil
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: acctest.OneHost(l) + config.String(), ResourceName: address, ImportState: true, ImportStateId: name,
		ImportStatePersist: true,
	}, resource.TestStep{
		Config: acctest.OneHost(l) + config.String(), ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: []statecheck.StateCheck{know("devices.rng.backend", exactly("egd"))}, Check: unchanged(),
	}, resource.TestStep{
		Config: acctest.OneHost(l) + imported.String(), ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		Check: unchanged(),
	}, resource.TestStep{
		Config:           acctest.OneHost(l) + imported.with(hcl{"title": quote("By plan")}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: unchanged("By hand", "By plan"),
	}, resource.TestStep{
		Config: acctest.OneHost(l) + imported.with(hcl{"devices": `{
    tpm      = { model = "tpm-tis", backend = "emulator", version = "1.2" }
    watchdog = { model = "ib700", action = "dump" }
    rng      = { model = "virtio", backend = "builtin", rate_bytes = 10, rate_period = 20 }
  }`}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: func(*terraform.State) error {
			now := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
			return contains(now, "<rate bytes='10' period='20'/>\n      <backend model='builtin'/>")
		},
	})
}
