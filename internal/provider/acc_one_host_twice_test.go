package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_oneHostTwice: a host that is configured under two names gets no object under both. Removed under one
// of them, the object would be gone under the other.
func TestAccProvider_oneHostTwice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name, kvm1 := lab.Name(t), l.Host("kvm1")
	once := acctest.OneHost(l)
	twice := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: kvm1}, {Name: "again", Of: kvm1}}}.String()
	objects := func(hosts string) string {
		return strings.NewReplacer("HOSTS", hosts, "NAME", name).Replace(`
resource "virtfleet_network" "this" {
  name  = "NAME"
  hosts = [HOSTS]
}
resource "virtfleet_secret" "this" {
  usage            = "ceph"
  usage_id         = "NAME"
  value_wo         = "hush"
  value_wo_version = "1"
  hosts            = [HOSTS]
}
resource "virtfleet_storage_pool" "this" {
  name   = "NAME"
  type   = "dir"
  target = { path = "/var/lib/libvirt/NAME" }
  hosts  = [HOSTS]
}
`)
	}
	refused := func() {
		t.Helper()
		out := tf.Fail(t, "apply")
		if n := strings.Count(out, fmt.Sprintf("hosts %q and %q are the same host", "again", "kvm1")); n != 3 {
			t.Errorf("%d of 3 objects are refused: %s", n, out)
		}
	}
	tf.Config(t, twice+objects(`"kvm1", "again"`))
	refused()
	if out, err := l.TryVirsh(t, "kvm1", "net-uuid", name); err == nil {
		t.Errorf("a refused apply has created a network: %s", out)
	}
	tf.Config(t, once+objects(`"kvm1"`))
	tf.Run(t, "apply")
	made := l.Virsh(t, "kvm1", "net-uuid", name)
	tf.Config(t, twice+objects(`"kvm1", "again"`))
	refused()
	tf.Config(t, once+objects(`"kvm1"`))
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	if now := l.Virsh(t, "kvm1", "net-uuid", name); now != made {
		t.Errorf("the network is %s, and was %s", now, made)
	}
	tf.Run(t, "destroy")
	if out, err := l.TryVirsh(t, "kvm1", "net-uuid", name); err == nil {
		t.Errorf("the network is still there: %s", out)
	}
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}
