package provider_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_replaced: every kind of object that isn't a VM is replaced, because an attribute requires that or
// with -replace. A plan that removes or replaces an object names the VM that uses it. The host then has the new objects
// and none of the old ones.
func TestAccProvider_replaced(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	file := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(file, bytes.Repeat([]byte("image "), 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	tf := acctest.NewCLI(t)
	configure := func(suffix, mac string) {
		set := strings.NewReplacer("NAME", name+suffix, "DIR", name, "FILE", file, "MAC", mac)
		tf.Config(t, acctest.OneHost(l)+set.Replace(`
resource "virtfleet_storage_pool" "this" {
  name   = "NAME"
  type   = "dir"
  target = { path = "/var/lib/libvirt/DIR" }
}
resource "virtfleet_image" "this" {
  name   = "NAME"
  pool   = virtfleet_storage_pool.this.name
  source = { file = "FILE" }
}
resource "virtfleet_network" "this" {
  name = "NAME"
  ips  = [{ address = "10.219.9.1/24", dhcp = { ranges = [{ start = "10.219.9.50", end = "10.219.9.60" }] } }]
}
resource "virtfleet_network_dhcp_host" "this" {
  network = virtfleet_network.this.name
  mac     = "MAC"
  ip      = "10.219.9.20"
}
resource "virtfleet_network_filter" "this" {
  name  = "NAME"
  rules = [{ action = "drop", direction = "in", protocol = "tcp" }]
}
resource "virtfleet_secret" "this" {
  usage    = "ceph"
  usage_id = "NAME"
  value_wo = "hush"
}
`))
	}
	kinds := []string{"storage_pool", "image", "network", "network_dhcp_host", "network_filter", "secret"}
	// identities are what tells each object from the one that replaces it. The host has one of each.
	identities := func() string {
		return l.Run(t, "kvm1", "sh", "-ec", strings.ReplaceAll(`
for kind in pool net; do
  for object in $(virsh "$kind-list" --all --name | grep NAME); do
    echo "$object $(virsh "$kind-uuid" "$object" | head -1)"
  done
done
virsh --quiet nwfilter-list | grep NAME
virsh --quiet secret-list | grep NAME
virsh --quiet net-dumpxml $(virsh net-list --name | grep NAME) | grep 10.219.9.20
stat --format "%n %i %z" /var/lib/libvirt/NAME/*`, "NAME", name))
	}
	last := ""
	replaced := func(how string, args ...string) {
		t.Helper()
		actions := tf.Actions(t, args...)
		for _, kind := range kinds {
			if got := actions["virtfleet_"+kind+".this"]; got != "delete create" {
				t.Errorf("%s: the plan for the %s is %q", how, kind, got)
			}
		}
		tf.Run(t, "apply", "planned")
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("%s: the plan isn't empty: %s", how, out)
		}
		before, now := strings.Split(last, "\n"), strings.Split(strings.TrimSpace(identities()), "\n")
		if len(now) != len(kinds) {
			t.Errorf("%s: the host has %d objects: %s", how, len(now), strings.Join(now, "\n"))
		}
		for _, line := range before {
			// With -replace, a reservation is the same again.
			if strings.Contains(strings.Join(now, "\n"), line) && !strings.Contains(line, "<host mac") {
				t.Errorf("%s: the host still has %s", how, line)
			}
		}
		last = strings.Join(now, "\n")
	}
	configure("-a", "52:54:00:12:34:01")
	tf.Run(t, "apply")
	last = strings.TrimSpace(identities())
	secret, _ := tf.State(t, "virtfleet_secret.this")
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type='qemu'><name>%[1]s</name><memory unit='MiB'>16</memory>
		<os><type>hvm</type></os><devices>
		<disk type='file'><source file='/var/lib/libvirt/%[1]s/disk'/><target dev='vda'/></disk>
		<disk type='network'><auth username='me'><secret type='ceph' uuid='%[2]s'/></auth>
			<source protocol='rbd' name='vms/disk'><host name='mon.example.net'/></source><target dev='vdb'/></disk>
		<interface type='network'><source network='%[1]s-a'/><filterref filter='%[1]s-a'/></interface>
		</devices></domain>`, name, secret["id"]))
	warned := func(how, plan string) {
		t.Helper()
		for _, noun := range []string{"storage pool %q", "network %q", "network filter %q", `secret "ceph/%s"`} {
			want := fmt.Sprintf("On host kvm1 the "+noun+" is used by virtual machine %s.", name+"-a", name)
			if !strings.Contains(plan, want) {
				t.Errorf("%s: the plan doesn't say: %s\n%s", how, want, plan)
			}
		}
	}
	warned("destroyed", tf.Run(t, "plan", "-destroy"))
	configure("-b", "52:54:00:12:34:02")
	warned("replaced", tf.Run(t, "plan"))
	l.Virsh(t, "kvm1", "undefine", name)
	if plan := tf.Run(t, "plan"); strings.Contains(plan, "is used by") {
		t.Errorf("nothing uses them any more: %s", plan)
	}
	replaced("renamed")
	var args []string
	for _, kind := range kinds {
		args = append(args, "-replace=virtfleet_"+kind+".this")
	}
	replaced("-replace", args...)
	tf.Run(t, "destroy")
	left := l.Run(t, "kvm1", "sh", "-c", "virsh pool-list --all; virsh net-list --all; virsh nwfilter-list; virsh "+
		"secret-list; ls -A /var/lib/libvirt/"+name)
	if strings.Contains(left, name) {
		t.Errorf("the host still has %s", left)
	}
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}
