package guestinfo_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/guestinfo"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "data." + guestinfo.TypeName + ".this"

// know expects a value in the state.
var know = acctest.Know(address)

// unavailable expects the reason of a group, whose name may have dots.
func unavailable(group, pattern string) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(address, acctest.At("unavailable").AtMapKey(group),
		knownvalue.StringRegexp(regexp.MustCompile(pattern)))
}

// data reads the guest of the VM with this id.
func data(id, settings string) string { return dataOf("virtual_machine_id", id, settings) }

// dataOf reads the guest of the VM that the attribute selects.
func dataOf(attribute, value, settings string) string {
	return fmt.Sprintf("data %q \"this\" {\n  %s = %q\n  %s\n}\n", guestinfo.TypeName, attribute, value, settings)
}

// define makes a VM on kvm2 by hand, so that the provider has to find it, and returns its UUID and name.
func define(t *testing.T, l *lab.Lab, words, devices string) (id, name string) {
	t.Helper()
	id, name = uuid.NewString(), lab.Name(t)
	l.Define(t, "kvm2", fmt.Sprintf(`<domain type="qemu">
  <name>%s</name><uuid>%s</uuid><memory unit="MiB">128</memory><vcpu>1</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type><kernel>%s</kernel><initrd>%s</initrd>
    <cmdline>%s %s</cmdline></os>
  <features><acpi/></features>
  <devices>%s<serial type="file"><source path="%s"/></serial></devices>
</domain>`, name, id, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, words, devices, lab.ConsoleLog(name)))
	return id, name
}

// defineBare makes one on kvm1 by hand that runs its firmware alone: nothing boots, and no agent answers.
func defineBare(t *testing.T, l *lab.Lab, devices string) (id, name string) {
	t.Helper()
	id, name = uuid.NewString(), lab.Name(t)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu">
  <name>%s</name><uuid>%s</uuid><memory unit="MiB">32</memory><vcpu>1</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type></os><devices>%s</devices>
</domain>`, name, id, devices))
	return id, name
}

const (
	channel = `<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>`
	nic     = `<interface type="network"><mac address="52:54:00:aa:bb:01"/><source network="default"/>` +
		`<model type="virtio"/></interface>`
)

// TestAccGuestInfo_agent: what an agent tells is known. One that is connected and doesn't answer costs one
// question, and is no error.
func TestAccGuestInfo_agent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, name := define(t, l, "hostname=agent-tells", channel+nic)
	l.Virsh(t, "kvm2", "start", name)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			// The agent needs seconds to come up, which the user may grant it.
			Config: acctest.Config(l) + data(id, `wait = "5m"`),
			ConfigStateChecks: []statecheck.StateCheck{
				know("agent_connected", knownvalue.Bool(true)),
				know("hostname", knownvalue.StringExact("agent-tells")),
				know("os.id", knownvalue.StringExact("virtfleet-lab")),
				know("os.kernel_release", knownvalue.NotNull()),
				know("interfaces", knownvalue.ListPartial(map[int]knownvalue.Check{
					1: knownvalue.ObjectPartial(map[string]knownvalue.Check{
						"mac": knownvalue.StringExact("52:54:00:aa:bb:01"),
					}),
				})),
				// Raw commands taint, so without being asked for they are not sent.
				know("agent_version", knownvalue.Null()),
				know("agent_commands", knownvalue.Null()),
				unavailable("agent", "taint"),
			},
		}, {
			Config: acctest.Config(l) + dataOf("name", name, "raw_commands = true"),
			PreConfig: func() {
				if tainted(t, l, name) {
					t.Error("the domain was tainted without being asked to")
				}
			},
			ConfigStateChecks: []statecheck.StateCheck{
				know("virtual_machine_id", knownvalue.StringExact(id)),
				know("agent_version", knownvalue.StringRegexp(regexp.MustCompile(`^\d+\.\d+\.\d+`))),
				know("agent_commands", knownvalue.NotNull()),
			},
		}, {
			PreConfig: func() { l.HangAgent(t, "kvm2", name) },
			Config:    acctest.Config(l) + data(id, ""),
			ConfigStateChecks: []statecheck.StateCheck{
				know("agent_connected", knownvalue.Bool(false)),
				know("os", knownvalue.Null()),
				know("users", knownvalue.Null()),
				unavailable("os", "^timed out: (?i).*guest agent"),
				unavailable("interfaces", "^timed out"),
				unavailable("vcpus", "^timed out"),
			},
		}},
	})
	if !tainted(t, l, name) {
		t.Error("raw commands don't taint: the attribute isn't needed")
	}
}

// tainted tells whether libvirt noted that the domain on kvm2 was sent a raw command.
func tainted(t *testing.T, l *lab.Lab, name string) bool {
	t.Helper()
	return strings.Contains(l.Run(t, "kvm2", "cat", "/var/log/libvirt/qemu/"+name+".log"), "tainted: custom-ga-command")
}

func TestAccGuestInfo_missingAgentIsNoError(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, name := defineBare(t, l, channel)
	off := []statecheck.StateCheck{
		know("agent_connected", knownvalue.Bool(false)),
		know("hostname", knownvalue.Null()),
		know("os", knownvalue.Null()),
		know("timezone", knownvalue.Null()),
		know("interfaces", knownvalue.Null()),
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			// Defined, but off.
			Config:            acctest.OneHost(l) + data(id, `wait = "10m"`),
			ConfigStateChecks: append(off, unavailable("os", "^not running: the virtual machine is Stopped")),
		}, {
			// Running without an agent.
			PreConfig:         func() { l.Virsh(t, "kvm1", "start", name) },
			Config:            acctest.OneHost(l) + data(id, `wait = "1s"`),
			ConfigStateChecks: append(off, unavailable("os", "^not connected: .*agent")),
		}},
	})
}

// TestAccGuestInfo_noChannel proves that a VM without a channel isn't asked anything.
func TestAccGuestInfo_noChannel(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, name := defineBare(t, l, "")
	l.Virsh(t, "kvm1", "start", name)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.OneHost(l) + data(id, "raw_commands = true"),
			ConfigStateChecks: []statecheck.StateCheck{
				know("agent_connected", knownvalue.Bool(false)), know("agent_supported", knownvalue.Null()),
				unavailable("os", "^agent absent"), unavailable("fsfreeze", "^agent absent"),
			},
		}},
	})
}

// TestAccGuestInfo_restrictedAgent proves that what an agent was told not to tell is null with that reason, unlike what
// it tells of nothing, and that the rest is known.
func TestAccGuestInfo_restrictedAgent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, name := define(t, l,
		"hostname=restricted deny=guest-get-users,guest-get-timezone,guest-get-vcpus", channel)
	l.Virsh(t, "kvm2", "start", name)
	missing := knownvalue.ListExact([]knownvalue.Check{
		knownvalue.StringExact("guest-get-timezone"), knownvalue.StringExact("guest-get-users"),
	})
	checks := []statecheck.StateCheck{
		know("agent_connected", knownvalue.Bool(true)), know("hostname", knownvalue.StringExact("restricted")),
		know("users", knownvalue.Null()), know("timezone", knownvalue.Null()), know("vcpus", knownvalue.Null()),
		know("filesystems", knownvalue.ListExact([]knownvalue.Check{})),
		unavailable("users", "^command disabled or failed: .*guest-get-users"),
		unavailable("timezone", "^command disabled or failed"), unavailable("vcpus", "^command disabled or failed"),
		know("agent_supported", knownvalue.Bool(false)), know("missing_commands", missing),
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			{Config: acctest.On(l, "kvm2") + data(id, `wait = "5m"`), ConfigStateChecks: checks},
			{Config: acctest.On(l, "kvm2") + data(id, "raw_commands = true"), ConfigStateChecks: checks},
		},
	})
}

func TestAccGuestInfo_unknownVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config:      acctest.Config(l) + data("web", ""),
			ExpectError: regexp.MustCompile(`must be a UUID`),
		}, {
			Config:      acctest.Config(l) + data("0b5f3c1e-7d0f-4b43-9a5e-3c8f3d2a1b00", ""),
			ExpectError: regexp.MustCompile(`(?s)Unable to read guest information.*No host has it`),
		}},
	})
}
