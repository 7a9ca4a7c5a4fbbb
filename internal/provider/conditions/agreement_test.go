package conditions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccConditions_agreeWithTheResource: read by its own resource and by the data source, a VM is the same one,
// while it runs, while it is paused, and with a change that waits for its restart.
func TestAccConditions_agreeWithTheResource(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := &testVM{t: t, lab: l, tf: acctest.NewCLI(t), host: "kvm1", name: lab.Name(t)}
	l.RemoveDomain(t, m.name)
	config := func(memory string) {
		t.Helper()
		m.tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_virtual_machine" "this" {
  name          = %q
  host          = "kvm1"
  type          = "qemu"
  memory        = { size = %q }
  kernel        = { path = %q, initrd = %q, cmdline = %q }
  interfaces    = { lan = { network = "default" } }
  guest_agent   = { enabled = true }
  wait_for      = { guest_agent = true, ip_address = "lan" }
  run_strategy  = "Once"
  update_policy = "Stage"
  termination_grace_period = "0s"
}
data "virtfleet_conditions" "this" {
  virtual_machine_id = virtfleet_virtual_machine.this.id
}
`, m.name, memory, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline))
	}
	agree := func(status string, ready, restart bool) {
		t.Helper()
		s := m.look()
		resource, _ := m.tf.State(t, "virtfleet_virtual_machine.this")
		for _, name := range []string{"phase", "status", "status_reason", "ready"} {
			if resource[name] != s.at(name) {
				t.Errorf("%s is %v to the resource, and %v to the data source", name, resource[name], s.at(name))
			}
		}
		s.is("status", status, "ready", fmt.Sprint(ready))
		if told := s.at("conditions/RestartRequired/status") == "True"; told != restart ||
			resource["restart_required"] != restart {
			t.Errorf("restart_required is %v to the resource, and %v to the data source, want %v",
				resource["restart_required"], told, restart)
		}
		addresses, _ := s.at("interfaces/0/ip_addresses").([]any)
		addresses = slices.DeleteFunc(addresses, func(a any) bool { return strings.HasPrefix(fmt.Sprint(a), "fe80:") })
		want := any(map[string]any{"lan": addresses})
		if diff := cmp.Diff(want, resource["ip_addresses"]); diff != "" || len(addresses) == 0 {
			t.Errorf("addresses, -data source +resource:\n%s", diff)
		}
		if left, empty := m.tf.Empty(t); !empty {
			t.Errorf("left to do:\n%s", left)
		}
	}

	config("192Mi")
	m.tf.Run(t, "apply")
	m.await("a lease", func() bool { return strings.Contains(m.virsh("domifaddr", m.name), "192.168.122.") })
	agree("Running", true, false)
	m.virsh("suspend", m.name)
	agree("Paused", false, false)
	m.virsh("resume", m.name)
	m.awaitAgent()

	config("256Mi")
	m.tf.Run(t, "apply") // The data source is read before the change.
	agree("Running", true, true)
	m.tf.Run(t, "destroy")
	if l.Has(t, "kvm1", "list", m.name) {
		t.Error("it is still there")
	}
}
