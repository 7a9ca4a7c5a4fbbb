package migrationcandidates_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationcandidates"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "data." + migrationcandidates.TypeName + ".this"

// know expects a value in the state.
var know = acctest.Know(address)

func of(host, attribute string) string { return "hosts." + host + "." + attribute }

// first expects some attributes of the first object of a list.
func first(attributes map[string]knownvalue.Check) knownvalue.Check {
	return knownvalue.ListPartial(map[int]knownvalue.Check{0: knownvalue.ObjectPartial(attributes)})
}

// blocked expects the first reason why a host is no target.
func blocked(host, reason, attribute string) []statecheck.StateCheck {
	return []statecheck.StateCheck{
		know(of(host, "fits"), knownvalue.Bool(false)),
		know(of(host, "blockers"), first(map[string]knownvalue.Check{
			"reason": knownvalue.StringExact(reason), "status": knownvalue.StringExact("False"),
			"attribute": knownvalue.StringExact(attribute), "remedy": knownvalue.NotNull(), "message": knownvalue.NotNull(),
		})),
	}
}

// anywhere asks whether the VM can move to any host, and to the one that is named.
const anywhere = `
data "virtfleet_conditions" "any" {
  virtual_machine_id = virtfleet_virtual_machine.this.id
}
data "virtfleet_conditions" "named" {
  virtual_machine_id = virtfleet_virtual_machine.this.id
  target_host        = "kvm2"
}
`

// movable expects a status and a reason of the condition LiveMigratable.
func movable(name, status, reason string) statecheck.StateCheck {
	return acctest.Know("data.virtfleet_conditions."+name)("conditions.LiveMigratable",
		knownvalue.ObjectPartial(map[string]knownvalue.Check{
			"status": knownvalue.StringExact(status), "reason": knownvalue.StringExact(reason),
		}))
}

// TestAccMigrationCandidates tells of every host whether it fits, and why not.
func TestAccMigrationCandidates(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	config := func(block acctest.Block, options string) string {
		block.Lab = l
		return block.String() + fmt.Sprintf(`
resource "virtfleet_virtual_machine" "this" {
  name      = %q
  type      = "qemu"
  memory    = { size = "64Mi" }
  interfaces = { lan = { network = "default" } }
  placement  = { host_labels = { zone = "a" } }
  termination_grace_period = "0s"
}

data "virtfleet_migration_candidates" "this" {
  virtual_machine_id = virtfleet_virtual_machine.this.id
  %s
}
`, name, options)
	}
	const zone = `labels = { zone = "a" }`
	first := acctest.Host{Of: l.Host("kvm1"), Settings: zone}
	all := []acctest.Host{
		first,
		{Of: l.Host("kvm2"), Settings: zone},
		{Of: l.Host("kvm3"), Settings: zone + "\nschedulable = false"},
		{Name: "lost", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":1/system", Settings: "fenced = true"},
	}
	const allowed = "migration_options = { allow_network_change = true }"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy:             acctest.CheckDestroyed(l, name),
		Steps: []resource.TestStep{{
			Config: config(acctest.Block{Hosts: []acctest.Host{first}}, ""),
		}, {
			Config: config(acctest.Block{Hosts: all}, ""),
			ConfigStateChecks: append([]statecheck.StateCheck{
				know("best", knownvalue.Null()),
				know("fitting", knownvalue.ListExact(nil)),
				know("current_host", knownvalue.StringExact("kvm1")),
				know(of("kvm1", "current"), knownvalue.Bool(true)), know(of("kvm1", "fits"), knownvalue.Bool(false)),
				know(of("kvm2", "free_memory_bytes"), knownvalue.NotNull()),
				know(of("lost", "free_memory_bytes"), knownvalue.Null()),
			}, append(blocked("kvm2", "InterfaceNotLiveMigratable", "interfaces.lan"),
				blocked("lost", "HostNotAvailable", "host")...)...),
		}, {
			Config: config(acctest.Block{Hosts: all}, allowed),
			ConfigStateChecks: append([]statecheck.StateCheck{
				know("best", knownvalue.StringExact("kvm2")),
				know("fitting", knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("kvm2")})),
				know(of("kvm2", "fits"), knownvalue.Bool(true)),
				know(of("kvm2", "method"), knownvalue.StringExact("LiveMigration")),
				know(of("kvm1", "method"), knownvalue.Null()), know(of("kvm3", "method"), knownvalue.Null()),
			}, blocked("kvm3", "HostNotSchedulable", "host")...),
		}, {
			Config: config(acctest.Block{Hosts: []acctest.Host{
				first, {Of: l.Host("kvm2"), Settings: zone + "\nmemory_limit = \"1Mi\""},
			}}, allowed),
			ConfigStateChecks: blocked("kvm2", "InsufficientMemory", "memory.size"),
		}, {
			// An order that names the target moves the VM there in spite of its labels.
			Config: config(acctest.Block{Hosts: []acctest.Host{first, {Of: l.Host("kvm2")}}, Settings: allowed}, "") +
				anywhere,
			ConfigStateChecks: append(blocked("kvm2", "HostLabelsMismatch", "host"),
				movable("any", "False", "HostLabelsMismatch"), movable("named", "True", "Migratable")),
		}},
	})
}

// TestAccMigrationCandidates_asksQEMU: what only QEMU knows is reported with raw_commands, which taints the VM. Of a
// device that QEMU marks as unmigratable, both say the same.
func TestAccMigrationCandidates_asksQEMU(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	for name, devices := range map[string]string{
		name: lab.UnmigratableDevice, name + "-usb": "<devices><sound model='usb'/></devices>",
	} {
		l.RemoveDomain(t, name)
		l.Define(t, "kvm1", "<domain type='qemu'><name>"+name+"</name><memory unit='MiB'>32</memory><os><type "+
			"arch='x86_64' machine='q35'>hvm</type></os>"+devices+"</domain>")
		l.Virsh(t, "kvm1", "start", name)
	}
	config := func(raw bool) string {
		return acctest.Config(l) + fmt.Sprintf(`
data "virtfleet_migration_candidates" "this" {
  name         = %[3]q
  raw_commands = %[2]t
}

data "virtfleet_migration_candidates" "usb" {
  name         = "%[3]s-usb"
  raw_commands = %[2]t
}

data "virtfleet_conditions" "this" {
  virtual_machine_id = %[1]q
  raw_commands       = %[2]t
}
`, strings.TrimSpace(l.Virsh(t, "kvm1", "domuuid", name)), raw, name)
	}
	usb := func(messages ...string) statecheck.StateCheck {
		var blockers []knownvalue.Check
		for _, message := range messages {
			blockers = append(blockers, knownvalue.ObjectPartial(map[string]knownvalue.Check{
				"reason":  knownvalue.StringExact("QEMUNotLiveMigratable"),
				"message": knownvalue.StringRegexp(regexp.MustCompile(message)),
			}))
		}
		return acctest.Know("data.virtfleet_migration_candidates.usb")(of("kvm2", "blockers"),
			knownvalue.ListExact(blockers))
	}
	const sound = "sound card of model usb"
	knowCondition := acctest.Know("data.virtfleet_conditions.this")
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: config(false),
			ConfigStateChecks: []statecheck.StateCheck{
				know(of("kvm2", "fits"), knownvalue.Bool(true)), usb(sound),
				knowCondition("conditions.LiveMigratable.status", knownvalue.StringExact("True")),
			},
		}, {
			Config: config(true),
			ConfigStateChecks: []statecheck.StateCheck{
				know(of("kvm2", "fits"), knownvalue.Bool(false)), usb(sound, "usb-audio"),
				know(of("kvm2", "blockers"), first(map[string]knownvalue.Check{
					"reason":  knownvalue.StringExact("QEMUNotLiveMigratable"),
					"message": knownvalue.StringRegexp(regexp.MustCompile("ivshmem")),
				})),
				knowCondition("conditions.LiveMigratable.reason", knownvalue.StringExact("QEMUNotLiveMigratable")),
			},
		}},
	})
}
