package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_renamedHost: one of two hosts gets another key in the provider's hosts. What is on it, on both or
// under maintenance stays: nothing is created, destroyed or said to be left behind.
func TestAccProvider_renamedHost(t *testing.T) {
	t.Parallel()
	l, tf := lab.Open(t), acctest.NewCLI(t)
	one, two := l.StartHost(t), l.StartHost(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	l.RemoveDomain(t, name+"-free")
	file := filepath.Join(t.TempDir(), "base.img")
	if err := os.WriteFile(file, []byte("image"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(first, second string) {
		t.Helper()
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
			{Name: first, Of: one}, {Name: second, Of: two},
		}}.String()+strings.NewReplacer("NAME", name, "FIRST", first, "SECOND", second, "FILE", file).Replace(`
resource "virtfleet_storage_pool" "both" {
  name   = "NAME-both"
  type   = "dir"
  target = { path = "/var/lib/libvirt/NAME-both" }
}
resource "virtfleet_storage_pool" "listed" {
  name   = "NAME-listed"
  hosts  = ["FIRST", "SECOND"]
  type   = "dir"
  target = { path = "/var/lib/libvirt/NAME-listed" }
}
resource "virtfleet_storage_pool" "one" {
  name   = "NAME-one"
  hosts  = ["FIRST"]
  type   = "dir"
  target = { path = "/var/lib/libvirt/NAME-one" }
}
resource "virtfleet_image" "base" {
  name   = "base.img"
  pool   = virtfleet_storage_pool.both.name
  source = { file = "FILE" }
}
resource "virtfleet_volume" "data" {
  name = "data"
  pool = virtfleet_storage_pool.one.name
  host = "FIRST"
  size = "1Mi"
}
resource "virtfleet_network" "lan" {
  name = "NAME"
}
resource "virtfleet_network_filter" "listed" {
  name  = "NAME"
  hosts = ["FIRST", "SECOND"]
  rules = [{ action = "drop", direction = "in", protocol = "tcp" }]
}
resource "virtfleet_secret" "key" {
  hosts            = ["FIRST"]
  usage            = "ceph"
  usage_id         = "NAME"
  value_wo         = "hush"
  value_wo_version = "1"
}
resource "virtfleet_eviction_policy" "none" {
  selector = { names = ["NAME"] }
  strategy = "None"
}
resource "virtfleet_virtual_machine" "pinned" {
  name         = "NAME"
  host         = "FIRST"
  type         = "qemu"
  memory       = { size = "16Mi" }
  run_strategy = "Halted"
  disks = {
    root = { pool = virtfleet_storage_pool.both.name, size = "1Mi" }
    data = { volume = virtfleet_volume.data.id }
  }
}
resource "virtfleet_virtual_machine" "free" {
  name         = "NAME-free"
  type         = "qemu"
  memory       = { size = "16Mi" }
  run_strategy = "Halted"
  placement    = { host_labels = {} }
}
resource "virtfleet_host_maintenance" "second" {
  host       = "SECOND"
  depends_on = [virtfleet_virtual_machine.free, virtfleet_virtual_machine.pinned, virtfleet_image.base]
}
`))
	}
	objects := func() string {
		return l.Run(t, one.Name, "sh", "-ec", strings.ReplaceAll("stat -c '%n %i' /var/lib/libvirt/NAME-*/*\n"+
			"virsh list --all --uuid\nvirsh pool-list --all --uuid\nvirsh net-uuid NAME\nvirsh secret-list", "NAME", name))
	}
	config(one.Name, two.Name)
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Fatalf("left to do:\n%s", out)
	}
	made := objects()
	for _, keys := range [][]string{{"node1", two.Name}, {"node1", "node2"}} {
		config(keys[0], keys[1])
		changes, text, err := tf.TryPlan(t)
		if err != nil || strings.Contains(text, "not configured any more") {
			t.Errorf("with the keys %v, the plan says: %v\n%s", keys, err, text)
		}
		for address, change := range changes {
			if change.Actions != "no-op" && change.Actions != "update" {
				t.Errorf("with the keys %v, it is to %s %s", keys, change.Actions, address)
			}
		}
		tf.Run(t, "apply", "planned")
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("with the keys %v, left to do:\n%s", keys, out)
		}
		if now := objects(); now != made {
			t.Errorf("with the keys %v, the objects are others:\n%s\nthey were\n%s", keys, now, made)
		}
	}
	tf.Run(t, "destroy")
	left := l.Run(t, one.Name, "sh", "-ec", "virsh list --all --uuid; virsh secret-list | grep "+name+" || true")
	if strings.TrimSpace(left) != "" {
		t.Errorf("destroy leaves %s", left)
	}
}
