package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_movedWithVM: a volume is found on the host to which a VM of another configuration took it. A refresh
// before the move saw that the VM uses it.
func TestAccVolume_movedWithVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	base, app, name := acctest.NewCLI(t), acctest.NewCLI(t), lab.Name(t)
	at := "/var/lib/libvirt/" + name
	for _, host := range []string{"kvm1", "kvm2"} {
		l.Virsh(t, host, "pool-define-as", name, "dir", "--target", at)
		l.Virsh(t, host, "pool-build", name)
		l.Virsh(t, host, "pool-start", name)
	}
	is := func(host string) {
		t.Helper()
		base.Config(t, acctest.Config(l)+fmt.Sprintf(
			"resource \"virtfleet_volume\" \"this\" {\nname = \"data\"\npool = %q\nhost = %q\nsize = \"8Mi\"\n}\n", name, host))
		base.Run(t, "apply")
		if out, empty := base.Empty(t); !empty {
			t.Errorf("the plan isn't empty: %s", out)
		}
		if state, _ := base.State(t, address); state["current_host"] != host {
			t.Errorf("the volume is on %v, want %s", state["current_host"], host)
		}
	}
	uses := func(host string) {
		app.Config(t, acctest.Config(l)+fmt.Sprintf(`
resource "virtfleet_virtual_machine" "this" {
  name              = %[1]q
  host              = %[2]q
  memory            = { size = "16Mi" }
  run_strategy      = "Halted"
  disks             = { data = { volume = "%[1]s/data" } }
  migration_options = { copy_storage = "full", keep_source_disks = false }
}
`, name, host))
		app.Run(t, "apply")
	}
	l.RemoveDomain(t, name)
	is("kvm1")
	uses("kvm1")
	is("kvm1")
	uses("kvm2")
	is("kvm2")
	left, has := xml(t, l, "kvm1", name, "data"), xml(t, l, "kvm2", name, "data")
	if left != "" || !strings.Contains(has, fmt.Sprint(8<<20)) {
		t.Errorf("kvm1 has %q, and kvm2 %q", left, has)
	}
	app.Run(t, "destroy")
	base.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		l.Virsh(t, host, "pool-destroy", name)
		l.Virsh(t, host, "pool-undefine", name)
		l.Run(t, host, "rmdir", at)
	}
}
