package conditions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
)

// TestAccConditions_cutOff: if a network is stopped and started under a VM, its condition and each plan say that it is
// cut off, until libvirt connects it again. The bridge is asked whether that is true. An interface on a bridge of the
// host isn't in question.
func TestAccConditions_cutOff(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	bridge := "vx" + name[len(name)-6:]
	l.RemoveDomain(t, name)
	c := acctest.NewCLI(t)
	c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name    = %[1]q
  bridge  = %[2]q
  forward = { mode = "isolated" }
}
resource "virtfleet_virtual_machine" "this" {
  name                     = %[1]q
  type                     = "qemu"
  memory                   = { size = "16Mi" }
  run_strategy             = "Manual"
  termination_grace_period = "0s"
  interfaces               = { lan = { network = virtfleet_network.this.name } }
}
data %[3]q "this" {
  name       = %[1]q
  depends_on = [virtfleet_virtual_machine.this]
}`, name, bridge, conditions.TypeName))
	c.Run(t, "apply")
	virsh := func(args ...string) { l.Virsh(t, "kvm1", args...) }
	virsh("start", "--paused", name)
	expect := func(when string, connected bool, status, reason, message string) {
		t.Helper()
		out := c.Run(t, "apply")
		all, _ := c.State(t, conditions.TypeName+".this")
		seen{t, all}.condition("InterfacesConnected", status, reason, "libvirt", message)
		if ports := l.Run(t, "kvm1", "ls", "/sys/class/net/"+bridge+"/brif"); strings.Contains(ports, "vnet") != connected {
			t.Errorf("%s: the bridge has the ports %q", when, ports)
		}
		if warns := strings.Contains(out, "Virtual machine is cut off: "+name); warns != (status == "False" && !connected) {
			t.Errorf("%s: the plan says %s", when, out)
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("%s: %s", when, out)
		}
	}
	expect("started", true, "True", "AllConnected", "")
	virsh("net-destroy", name)
	virsh("net-start", name)
	expect("the network was restarted", false, "False", "NetworkStopped",
		`interface "lan": network "`+name+`" was stopped`)
	virsh("destroy", name)
	virsh("start", "--paused", name)
	expect("started again", true, "True", "AllConnected", "")
	c.Run(t, "destroy")
	if l.Has(t, "kvm1", "list", name) || l.Has(t, "kvm1", "net-list", name) {
		t.Error("destroy has left the VM or its network")
	}
}
