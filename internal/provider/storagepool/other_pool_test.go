package storagepool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccStoragePool_destroysOnlyItsOwn: a destroy with on_destroy = "delete" removes what the resource created, and
// nothing else: neither what a pool of the same name is based on that a user has defined on a host which was silent
// during the creation, nor the volume group that a user has given the pool since. Its plan says what differs.
func TestAccStoragePool_destroysOnlyItsOwn(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at, group, other := "/var/lib/libvirt/"+name, name+"-vg", name+"-other"
	device := l.LoopDevice(t, "kvm1", group, 32<<20)
	otherDevice := l.LoopDevice(t, "kvm1", other, 32<<20)
	pools := fmt.Sprintf(`
resource "virtfleet_storage_pool" "dir" {
  name       = %[1]q
  type       = "dir"
  target     = { path = %[2]q }
  on_destroy = "delete"
}
resource "virtfleet_storage_pool" "logical" {
  name       = "%[1]s-logical"
  type       = "logical"
  hosts      = ["kvm1"]
  build      = true
  source     = { name = %[3]q, devices = [%[4]q] }
  on_destroy = "delete"
}
`, name, at, group, device)
	l.Run(t, "kvm1", "vgcreate", other, otherDevice)
	t.Cleanup(func() {
		if _, err := l.Host("kvm1").Run(context.WithoutCancel(t.Context()), "vgremove", other); err != nil {
			t.Error(err)
		}
	})
	l.Run(t, "kvm2", "mkdir", at)
	l.Virsh(t, "kvm2", "pool-define-as", name, "dir", "--target", at)
	l.Virsh(t, "kvm2", "pool-start", name)

	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")}, {Name: "kvm2", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"},
	}}.String()+pools)
	tf.Run(t, "apply")
	tf.Config(t, acctest.Config(l)+pools)
	set := func(from, to string) {
		l.Run(t, "kvm1", "sh", "-ec", fmt.Sprintf("virsh pool-dumpxml --inactive %[1]s-logical >/run/%[1]s.xml; "+
			"sed -i 's|<name>%[2]s<|<name>%[3]s<|' /run/%[1]s.xml; virsh pool-define /run/%[1]s.xml; rm /run/%[1]s.xml",
			name, from, to))
	}
	set(group, other)
	out := strings.Join(strings.Fields(tf.Fail(t, "destroy")), " ")
	for _, want := range []string{
		fmt.Sprintf("Unable to delete storage pool %q", name), "Host: kvm2", "has another UUID",
		fmt.Sprintf("Unable to delete storage pool %q", name+"-logical"),
		fmt.Sprintf("source.name = %q instead of %q", other, group), `on_destroy to "keep"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the destroy doesn't say %s: %s", want, out)
		}
	}
	l.Run(t, "kvm2", "test", "-d", at)
	l.Run(t, "kvm1", "vgs", other)
	for host, pool := range map[string]string{"kvm1": name + "-logical", "kvm2": name} {
		if info := l.Virsh(t, host, "pool-info", pool); !strings.Contains(info, "running") {
			t.Errorf("on host %s: %s", host, info)
		}
	}

	set(other, group)
	l.Virsh(t, "kvm2", "pool-destroy", name)
	l.Virsh(t, "kvm2", "pool-undefine", name)
	tf.Run(t, "apply") // kvm2 gets the pool, now as one of the resource.
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	l.Virsh(t, "kvm1", "pool-destroy", name+"-logical") // The destroy starts it, to see what it has.
	tf.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		if left := l.Virsh(t, host, "pool-list", "--all", "--name"); strings.Contains(left, name) {
			t.Errorf("host %s has %s", host, left)
		}
		l.Run(t, host, "test", "!", "-e", at)
	}
	if groups := l.Run(t, "kvm1", "vgs", "--noheadings", "--options", "vg_name"); strings.Contains(groups, group) {
		t.Errorf("there are %s", groups)
	}
}
