package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_createdBeforeDestroyed: with create_before_destroy, nothing that keeps its name can be replaced. The
// apply says so before it destroys anything, and what is there stays the resource's: the next plan is empty. So it is
// with pools, networks, filters and secrets.
func TestAccVolume_createdBeforeDestroyed(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := acctest.NewCLI(t)
	config := func(lifecycle string) {
		all, secret := "", "value_wo = \"c2VjcmV0\"\nvalue_wo_version = \"1\""
		for _, kind := range []string{"storage_pool", "volume", "network", "network_filter", "secret"} {
			all += fmt.Sprintf("resource \"virtfleet_%s\" \"this\" {\n%s\n%s\n}\n", kind, map[string]string{
				"storage_pool":   fmt.Sprintf("name = %q\ntype = \"dir\"\ntarget = { path = \"/var/lib/libvirt/%[1]s\" }", name),
				"volume":         "name = \"data\"\npool = virtfleet_storage_pool.this.name\nsize = \"1Mi\"",
				"network":        fmt.Sprintf("name = %q", name),
				"network_filter": fmt.Sprintf("name = %q", name),
				"secret":         fmt.Sprintf("usage = \"ceph\"\nusage_id = %q\n%s", name, secret),
			}[kind], lifecycle)
		}
		tf.Config(t, acctest.OneHost(l)+all)
	}
	config("lifecycle { create_before_destroy = true }")
	tf.Run(t, "apply")
	there := func() string {
		return strings.Join([]string{
			l.Virsh(t, "kvm1", "pool-uuid", name), l.Virsh(t, "kvm1", "vol-list", name),
			l.Virsh(t, "kvm1", "net-uuid", name), l.Virsh(t, "kvm1", "nwfilter-dumpxml", name),
			l.SecretUUID(t, "kvm1", name),
		}, "\n")
	}
	before := there()
	for _, kind := range []string{"volume", "storage_pool", "network", "network_filter", "secret"} {
		out := tf.Fail(t, "apply", "-replace=virtfleet_"+kind+".this")
		for _, says := range []string{
			"Warning: Unable to create", "Error: Unable to create", "leave create_before_destroy out",
		} {
			if !strings.Contains(out, says) {
				t.Errorf("%s: the apply doesn't say %q: %s", kind, says, out)
			}
		}
		if now := there(); now != before {
			t.Errorf("%s: %s has become %s", kind, before, now)
		}
	}
	for _, lifecycle := range []string{"lifecycle { create_before_destroy = true }", ""} {
		config(lifecycle)
		if plan, empty := tf.Empty(t); !empty {
			t.Errorf("with %q, the next plan isn't empty: %s", lifecycle, plan)
		}
	}
	tf.Run(t, "destroy")
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
	for _, list := range []string{"pool-list", "net-list", "nwfilter-list", "secret-list"} {
		if out := l.Virsh(t, "kvm1", list); strings.Contains(out, name) {
			t.Errorf("%s: %s", list, out)
		}
	}
}
