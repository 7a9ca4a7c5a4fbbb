package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestVirtualMachine_floor: a plan refuses a guarantee that a network can't give: in addition to what it has guaranteed
// to running VMs, and to the other interfaces of the VM. What a network can give after the same apply isn't known.
// libvirt's built-in driver stands for kernels that can guarantee bandwidth.
func TestVirtualMachine_floor(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	keepBuiltIn(t)
	network := func(inbound string) string {
		return fmt.Sprintf(`
resource "virtfleet_network" "lan" {
  name      = "unit-floor"
  forward   = { mode = "nat" }
  update_policy = "Restart"
  ips       = [{ address = "10.214.9.1/24" }]
  bandwidth = { inbound = { %s } }
}
`, inbound)
	}
	floor := func(kb int) string {
		return fmt.Sprintf("{ network = virtfleet_network.lan.name, bandwidth = { inbound = { floor = %d } } }", kb)
	}
	// vm has an interface for each guarantee.
	vm := func(name string, kb ...int) string {
		var nics []string
		for i, floorKB := range kb {
			nics = append(nics, fmt.Sprintf("nic%d = %s", i, floor(floorKB)))
		}
		config := hcl{
			"name": quote("unit-floor-" + name), "arch": quote("i686"), "memory": `{ size = "64Mi" }`,
			"termination_grace_period": quote("0s"), // The driver knows no power button.
			"interfaces":               "{ " + strings.Join(nics, "\n") + " }",
		}
		return strings.Replace(config.String(), `"this"`, quote(name), 1)
	}
	const small = "average = 1000"
	applied := func(config string) resource.TestStep { return resource.TestStep{Config: builtIn + config} }
	refused := func(config string, parts ...string) resource.TestStep {
		return resource.TestStep{Config: builtIn + config, PlanOnly: true, ExpectError: inOrder(parts...)}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			applied(network(small)),
			refused(network(small)+vm("a", 600, 500), `network "unit-floor" has 1000 kB/s (bandwidth.inbound.average)`,
				"ask it for 1100"),
			{
				Config: builtIn + network(small) + vm("a", 600),
				ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue("virtfleet_virtual_machine.a",
					tfjsonpath.New("interfaces").AtMapKey("nic0").AtMapKey("bandwidth").AtMapKey("inbound").AtMapKey("floor"),
					knownvalue.Int64Exact(600))},
			},
			refused(network(small)+vm("a", 600)+vm("b", 401), `1000 kB/s in its network "unit-floor"`,
				`600 are guaranteed to VM "unit-floor-a"`, "asks for 401"),
			applied(network(small) + vm("a", 600) + vm("b", 400)),
			refused(network(small)+vm("a", 601)+vm("b", 400), `400 are guaranteed to VM "unit-floor-b"`, "asks for 601"),
			{ // The same apply would give the network more. The driver keeps an active network as it is.
				Config: builtIn + network("average = 2000") + vm("a", 600) + vm("b", 400) + vm("c", 1000), PlanOnly: true,
				ExpectNonEmptyPlan: true,
			},
		},
	})
}

// TestAccInterface_floor: a VM isn't started where the network can't guarantee what the VM asks for. A guarantee that a
// user has made by hand is repaired, imported and removed. Not every kernel can guarantee bandwidth, so that the VM
// stays off.
func TestAccInterface_floor(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	write := func(strategy, bandwidth string) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "lan" {
  name    = %q
  hosts   = [%q]
  forward = { mode = "isolated" }
}
`, name, host)+tinyVM(name).with(hcl{
			"host": quote(host), "run_strategy": quote(strategy),
			"interfaces": "{ lan = { network = virtfleet_network.lan.name" + bandwidth + " } }",
		}).String())
	}
	floor := func(kb int) string { return fmt.Sprintf(", bandwidth = { inbound = { floor = %d } }", kb) }
	write("Always", floor(500)) // What the new network can guarantee isn't known to the plan.
	expect(t, tf.Fail(t, "apply"), host, "has no bandwidth.inbound, of which it could guarantee a part")
	write("Halted", "")
	tf.Run(t, "apply")
	write("Always", floor(500))
	expect(t, tf.Fail(t, "plan"), "interfaces.lan.bandwidth.inbound.floor", host, "has no bandwidth.inbound",
		"Give the network")
	write("Halted", floor(500)) // A VM that stays off asks for nothing yet.

	// repair has the provider lower a guarantee that was made by hand.
	var defined string
	repair := func(old, byHand, plan string) {
		t.Helper()
		l.Virsh(t, host, "define", writeDeviceXML(t, strings.Replace(l.Virsh(t, host, "dumpxml", name), old, byHand, 1)))
		expect(t, tf.Run(t, "plan"), plan)
		tf.Run(t, "apply")
		noChanges(t, tf)
		defined = l.Virsh(t, host, "dumpxml", name)
		if err := contains(defined, "<inbound floor='500'/>"); err != nil {
			t.Error(err)
		}
	}
	repair("<model type='virtio'/>", "<bandwidth><inbound floor='600'/></bandwidth><model type='virtio'/>", "floor = 500")
	repair("floor='500'", "floor='600'", "floor = 600 -> 500")
	write("Always", floor(500))
	expect(t, tf.Fail(t, "plan"), "interfaces.lan.bandwidth.inbound.floor", host, "has no bandwidth.inbound")

	write("Halted", floor(500))
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, name)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if after := l.Virsh(t, host, "dumpxml", name); after != defined {
		t.Errorf("the import changed\n%s\nto\n%s", defined, after)
	}

	write("Halted", floor(0))
	tf.Run(t, "apply")
	noChanges(t, tf)
	if xml := l.Virsh(t, host, "dumpxml", name); strings.Contains(xml, "<bandwidth") {
		t.Errorf("a guarantee of 0 leaves %s", xml)
	}
	destroyAndCheck(t, l, tf, name)
}
