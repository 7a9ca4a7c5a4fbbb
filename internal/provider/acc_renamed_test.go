package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_renamedResources: a resource whose name in the configuration changes keeps its object. Without a
// moved block, the plan fails instead of destroying the object that an import gives to the new name, or the volume that
// the new name is to create. What the state has under two names is destroyed under neither.
func TestAccProvider_renamedResources(t *testing.T) {
	t.Parallel()
	const title = "Object is destroyed under its former address"
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	base := acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "pool" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, name)
	blocks := func(key string) string {
		return strings.NewReplacer("KEY", key, "NAME", name).Replace(`
resource "virtfleet_volume" "KEY" {
  name = "data"
  pool = virtfleet_storage_pool.pool.name
  size = "8Mi"
}
resource "virtfleet_network" "KEY" {
  name = "NAME"
}
resource "virtfleet_network_filter" "KEY" {
  name  = "NAME"
  rules = [{ action = "drop", direction = "in", protocol = "tcp" }]
}
resource "virtfleet_secret" "KEY" {
  usage            = "ceph"
  usage_id         = "NAME"
  value_wo         = "hush"
  value_wo_version = "1"
}
resource "virtfleet_virtual_machine" "KEY" {
  name         = "NAME"
  memory       = { size = "16Mi" }
  run_strategy = "Halted"
}
`)
	}
	objects := func() string {
		t.Helper()
		return l.Run(t, "kvm1", "sh", "-ec", strings.ReplaceAll("stat -c '%i' /var/lib/libvirt/NAME/data\n"+
			"virsh net-uuid NAME\nvirsh nwfilter-dumpxml NAME | grep uuid\nvirsh domuuid NAME\n"+
			"virsh secret-list | grep NAME", "NAME", name))
	}
	tf.Config(t, base+blocks("old"))
	tf.Run(t, "apply")
	made := objects()
	imports, moves := "", ""
	for kind, id := range map[string]string{
		"volume": name + "/data", "network": name, "network_filter": name, "secret": "ceph/" + name, "virtual_machine": name,
	} {
		imports += fmt.Sprintf("import {\n  to = virtfleet_%s.new\n  id = %q\n}\n", kind, id)
		moves += fmt.Sprintf("moved {\n  from = virtfleet_%[1]s.old\n  to = virtfleet_%[1]s.new\n}\n", kind)
	}

	tf.Config(t, base+blocks("new")+imports)
	out := tf.Fail(t, "apply")
	if n := strings.Count(out, title); n != 5 || !strings.Contains(out, "moved {") {
		t.Errorf("%d of 5 resources are refused: %s", n, out)
	}
	tf.Config(t, base+blocks("new"))
	for _, kind := range []string{"volume", "virtual_machine", "network", "network_filter", "secret"} {
		renamed := []string{"apply", "-target=virtfleet_" + kind + ".new", "-target=virtfleet_" + kind + ".old"}
		if out := tf.Fail(t, renamed...); !strings.Contains(out, title) {
			t.Errorf("the %s is to be created under the name of one that is destroyed: %s", kind, out)
		}
	}
	if now := objects(); now != made {
		t.Errorf("a refused apply changed the objects:\n%s\nthey were\n%s", now, made)
	}
	tf.Config(t, base+blocks("new")+moves)
	if out := tf.Run(t, "apply"); !strings.Contains(out, "0 added, 0 changed, 0 destroyed") {
		t.Errorf("with moved blocks the apply does: %s", out)
	}

	tf.Config(t, base+blocks("new")+strings.Split(blocks("old"), "resource \"virtfleet_network\"")[0])
	tf.Run(t, "import", "virtfleet_volume.old", name+"/data")
	tf.Config(t, base+blocks("new"))
	if out := tf.Fail(t, "apply"); !strings.Contains(out, title) {
		t.Errorf("a volume that the state has twice is destroyed under one name: %s", out)
	}
	tf.Run(t, "state", "rm", "virtfleet_volume.old")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	if now := objects(); now != made {
		t.Errorf("the objects are others:\n%s\nthey were\n%s", now, made)
	}
	tf.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}
