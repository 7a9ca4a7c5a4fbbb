package storagepool_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccStoragePool_importedFromOneHost: a pool or a secret that only one of several hosts has is imported with that
// host as its only one. It isn't missing on the others, so the plan changes no host_states.
func TestAccStoragePool_importedFromOneHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	l.Run(t, "kvm2", "mkdir", at)
	l.Virsh(t, "kvm2", "pool-define-as", name, "dir", "--target", at)
	l.Virsh(t, "kvm2", "pool-start", name)
	l.Virsh(t, "kvm2", "pool-autostart", name)
	l.Run(t, "kvm2", "sh", "-ec", fmt.Sprintf("echo \"<secret private='no' ephemeral='no'><usage type='ceph'>"+
		"<name>%s</name></usage></secret>\" >%[2]s.xml; virsh secret-define %[2]s.xml; rm %[2]s.xml", name, at))
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Config(l)+fmt.Sprintf(`
import {
  to = virtfleet_storage_pool.this
  id = %[1]q
}
resource "virtfleet_storage_pool" "this" {
  name       = %[1]q
  type       = "dir"
  target     = { path = %[2]q }
  hosts      = ["kvm2"]
  on_destroy = "delete"
}
import {
  to = virtfleet_secret.this
  id = "ceph/%[1]s"
}
resource "virtfleet_secret" "this" {
  usage            = "ceph"
  usage_id         = %[1]q
  hosts            = ["kvm2"]
  value_wo         = "secret"
  value_wo_version = "1"
}
`, name, at))
	changes := tf.Plan(t)
	for address, state := range map[string]string{
		"virtfleet_storage_pool.this": "active", "virtfleet_secret.this": "present",
	} {
		c := changes[address]
		want := map[string]any{"kvm2": state}
		if !reflect.DeepEqual(c.Before["host_states"], want) || !reflect.DeepEqual(c.After["host_states"], want) {
			t.Errorf("%s is planned from %v to %v; want %v", address, c.Before["host_states"], c.After["host_states"], want)
		}
	}
	// What isn't declared stays as it is, and the pool isn't restarted for it. The plan says so: permissions and
	// autostart were imported, and don't become null.
	pool := changes["virtfleet_storage_pool.this"]
	target, _ := pool.After["target"].(map[string]any)
	if permissions, _ := target["permissions"].(map[string]any); permissions["mode"] != "0755" ||
		pool.After["autostart"] != true || !reflect.DeepEqual(pool.Before["target"], pool.After["target"]) {
		t.Errorf("the plan changes what isn't declared: %v to %v", pool.Before, pool.After)
	}
	started := l.Run(t, "kvm2", "stat", "-c", "%y", "/run/libvirt/storage/"+name+".xml")
	if out := tf.Run(t, "apply"); !strings.Contains(out, "permissions") || strings.Contains(out, "stopped and started") {
		t.Errorf("the apply says: %s", out)
	}
	if now := l.Run(t, "kvm2", "stat", "-c", "%y", "/run/libvirt/storage/"+name+".xml"); now != started {
		t.Errorf("the pool was started again: %s, %s", started, now)
	}
	// Nor does it change it back if a user does so on the host.
	l.Virsh(t, "kvm2", "pool-autostart", "--disable", name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	tf.Run(t, "apply")
	applied, _ := tf.State(t, "virtfleet_storage_pool.this")
	if applied["autostart"] != false {
		t.Errorf("the state doesn't say what the host has: %v", applied)
	}
	// What was imported is the resource's own, and goes with it.
	tf.Run(t, "destroy")
	if left := l.Virsh(t, "kvm2", "pool-list", "--all", "--name") + l.Virsh(t, "kvm2", "secret-list"); strings.Contains(
		left, name) {
		t.Errorf("left: %s", left)
	}
	l.Run(t, "kvm2", "test", "!", "-e", at)
}
