package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_unsafe: by planned steps, a VM whose image no pool lists is to move live, which libvirt
// refuses. The apply says at once what to do, and the next one does what the VM's policy falls back to.
func TestAccHostMaintenance_unsafe(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to, tf := l.StartHost(t), l.StartHost(t), acctest.NewCLI(t)
	name := lab.Name(t)
	image := "/var/lib/libvirt/images/" + name + ".qcow2"
	l.Run(t, from.Name, "qemu-img", "create", "-q", "-f", "qcow2", image, "1M")
	l.RemoveDomain(t, name)
	l.Define(t, from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
		<source file="%s"/><target dev="vda" bus="virtio"/></disk></devices></domain>`, name, image))
	l.Virsh(t, from.Name, "start", name)

	policy := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: from, Settings: fmt.Sprintf("migration_address = %q", from.Address)},
		{Of: to, Settings: fmt.Sprintf("migration_address = %q", to.Address)},
	}}.String() + fmt.Sprintf(`
resource "virtfleet_eviction_policy" "this" {
  name     = %[1]q
  selector = { names = [%[1]q] }
  strategy = "LiveMigrate"
  fallback = "Save"
}
`, name)
	tf.Config(t, policy)
	tf.Run(t, "apply")
	tf.Config(t, policy+fmt.Sprintf(`
data "virtfleet_evacuation_plan" "this" {
  host = %[1]q
}

resource "virtfleet_host_maintenance" "this" {
  host    = %[1]q
  steps   = data.virtfleet_evacuation_plan.this.steps
  restore = true
}
`, from.Name))
	out := tf.Fail(t, "apply")
	for _, want := range []string{
		"Unable to determine whether the virtual machine can be moved", "Unsafe migration", "virsh pool-refresh",
		"lan and apply again",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if state := strings.TrimSpace(l.Virsh(t, from.Name, "domstate", name)); state != "running" {
		t.Errorf("refused, it is %s", state)
	}
	tf.Run(t, "apply")
	if state := strings.TrimSpace(l.Virsh(t, from.Name, "domstate", name)); state != "shut off" {
		t.Errorf("after the fallback it is %s", state)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	tf.Run(t, "destroy")
	if state := strings.TrimSpace(l.Virsh(t, from.Name, "domstate", name)); state != "running" {
		t.Errorf("restored, it is %s", state)
	}
}
