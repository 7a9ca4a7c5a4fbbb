package virtualmachine_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// builtIn is libvirt's built-in driver with room in addition to the VM that it comes with.
const builtIn = `provider "virtfleet" {
  hosts = { local = { uri = "test:///default", memory_limit = "16Gi" } }
}
`

// keepBuiltIn opens the built-in driver until the test ends. The driver forgets everything when its last connection
// ends.
func keepBuiltIn(t *testing.T) *libvirt.Host {
	t.Helper()
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestVirtualMachine_testDriver runs a whole life against libvirt's built-in driver, which needs no host.
func TestVirtualMachine_testDriver(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	keepBuiltIn(t)
	// The built-in driver offers one architecture, and a type of its own that isn't to be declared.
	config := hcl{
		"name": quote("unit-vm"), "arch": quote("i686"), "memory": `{ size = "64Mi" }`,
		"termination_grace_period": quote("0s"), // It knows no power button.
	}
	step := func(change hcl, action plancheck.ResourceActionType, checks ...statecheck.StateCheck) resource.TestStep {
		config = config.with(change)
		return resource.TestStep{
			Config: builtIn + config.String(), ConfigPlanChecks: changes(action), ConfigStateChecks: checks,
		}
	}
	// The network is created by the same apply, and another one takes its place.
	inNetwork := func(name string) resource.TestStep {
		return resource.TestStep{Config: builtIn + fmt.Sprintf(`
resource "virtfleet_network" "lan" {
  name    = %q
  forward = { mode = "isolated" }
  lifecycle { create_before_destroy = true }
}
`, name) + config.with(hcl{
			"run_strategy": quote("Halted"), "interfaces": `{ lan = { network = virtfleet_network.lan.name } }`,
		}).String()}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step(nil, plancheck.ResourceActionCreate, know("status", exactly("Running")),
				know("ready", knownvalue.Bool(true)), know("current_host", exactly("local")),
				know("location.host_uuid", knownvalue.Null())), // The driver reports none.
			step(hcl{"labels": `{ app = "web" }`}, plancheck.ResourceActionUpdate),
			step(hcl{"run_strategy": quote("Halted")}, plancheck.ResourceActionUpdate,
				know("status", exactly("Stopped")), know("ready", knownvalue.Bool(false))),
			step(hcl{"cpu": `{ vcpus = 2 }`}, plancheck.ResourceActionUpdate),
			inNetwork("unit-lan"),
			inNetwork("unit-lan-2"),
		},
	})
}

func TestAccVirtualMachine_minimum(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	least := hcl{
		"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`,
		"termination_grace_period": quote("0s"), // It has nothing to boot that could shut down.
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: acctest.Config(l) + least.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate,
			plancheck.ExpectUnknownValue(address, acctest.At("machine_type")),
			plancheck.ExpectUnknownValue(address, acctest.At("current_host")),
		),
		ConfigStateChecks: []statecheck.StateCheck{
			know("status", exactly("Running")),
			know("phase", exactly("Running")),
			know("ready", knownvalue.Bool(true)),
			know("restart_required", knownvalue.Bool(false)),
			know("location.stale_definitions", knownvalue.ListExact(nil)),
			know("run_strategy", knownvalue.Null()),
			know("host", knownvalue.Null()),
			know("disks", knownvalue.MapExact(nil)),
			know("cpu.vcpus", knownvalue.Int64Exact(1)),
			know("current_host", knownvalue.StringRegexp(regexp.MustCompile("^kvm[12]$"))),
		},
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		// What a reading can't know, what an import observes, and what is read where it was declared or imported.
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason"),
	})
}

func TestAccVirtualMachine_full(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 64<<20)
	export := l.NBD(t, name, 16<<20)
	config := guest(l, name).with(hcl{
		"host": quote("kvm1"), "machine_type": quote("q35"), "labels": `{ app = "web" }`, "run_strategy": quote("Always"),
		"cpu":    `{ cores = 1, sockets = 1, max_sockets = 2 }`,
		"memory": `{ size = "256Mi", max_size = "512Mi" }`,
		"disks": `{
			root = { volume = ` + quote(image) + `, bus = "virtio", format = "qcow2", boot_order = 1 }
			data = {
				network = { protocol = "nbd", name = ` + quote(export.Name) + `, hosts = [` + quote(export.Address()) + `] }
			}
			cd   = { device = "cdrom" }
		}`,
		"interfaces":     `{ lan = { network = "default" }, spare = { user = true, mac = "52:54:00:AA:BB:CC" } }`,
		"guest_agent":    `{ enabled = true }`,
		"serial_console": `{ enabled = true }`,
		"wait_for":       `{ guest_agent = true, ip_address = "lan", timeout = "5m" }`,
	})
	story(t, l, []string{name}, resource.TestStep{
		Config:           acctest.OneHost(l) + config.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate, planned("current_host", exactly("kvm1"))),
		ConfigStateChecks: []statecheck.StateCheck{
			know("ready", knownvalue.Bool(true)),
			know("disks.root.volume", exactly(image)),
			know("disks.root.file", knownvalue.Null()),
			know("interfaces.spare.mac", exactly("52:54:00:AA:BB:CC")),
			know("ip_addresses.lan", knownvalue.ListSizeExact(1)),
			know("cpu.vcpus", knownvalue.Int64Exact(1)),
		},
	}, resource.TestStep{
		// Everything in another notation is no change.
		Config: acctest.OneHost(l) + config.with(hcl{
			"memory": `{ size = "262144Ki", max_size = "0.5Gi" }`, "termination_grace_period": quote("1m"),
		}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
	})
}

// TestAccVirtualMachine_imported: a VM that another tool made, with devices that the schema has no words for, is
// taken over without a change.
func TestAccVirtualMachine_imported(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	xml := strings.NewReplacer("NAME", name, "KERNEL", l.KernelPath()).Replace(`<domain type="qemu">
  <name>NAME</name><memory unit="MiB">192</memory><currentMemory unit="MiB">96</currentMemory>
  <vcpu current="1">4</vcpu>
  <metadata><other:tool xmlns:other="urn:other">kept</other:tool></metadata>
  <os><type arch="x86_64" machine="pc">hvm</type><kernel>KERNEL</kernel><boot dev="hd"/></os>
  <features><acpi/></features>
  <devices>
    <disk type="volume" device="disk"><source pool="default" volume="none.qcow2"/><target dev="sda" bus="sata"/></disk>
    <disk type="file" device="cdrom"><target dev="hda" bus="ide"/></disk>
    <disk type="file" device="floppy"><target dev="fda"/></disk>
    <interface type="ethernet"><mac address="52:54:00:00:99:01"/><model type="e1000"/></interface>
    <interface type="network"><source network="default"/><link state="down"/></interface>
  </devices>
</domain>`)
	l.Define(t, "kvm2", xml)
	story(t, l, []string{name}, resource.TestStep{
		Config:       acctest.Config(l) + hcl{"name": quote(name)}.String(),
		ResourceName: address, ImportState: true, ImportStateId: name, ImportStatePersist: true,
	}, resource.TestStep{
		Config:           acctest.Config(l) + hcl{"name": quote(name), "run_strategy": quote("Halted")}.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: []statecheck.StateCheck{
			know("current_host", exactly("kvm2")),
			know("host", knownvalue.Null()),
			know("run_strategy", exactly("Halted")),
			know("memory.size", exactly("96Mi")),
			know("disks.sda.other", knownvalue.NotNull()),
		},
	}, resource.TestStep{
		// The first change of ours touches nothing else.
		Config: acctest.Config(l) + hcl{
			"name": quote(name), "run_strategy": quote("Halted"), "labels": `{ app = "web" }`,
		}.String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: func(*terraform.State) error {
			return contains(l.Virsh(t, "kvm2", "dumpxml", name), "urn:other", "kept", "52:54:00:00:99:01", "<virtfleet:")
		},
	})
}
