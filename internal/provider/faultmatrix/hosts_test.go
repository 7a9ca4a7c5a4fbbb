package faultmatrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestAccFaults_hostsKilled: Terraform and the provider are killed when a network, a filter, a pool, an image and a
// secret have come to a host that the provider gains, and when they have gone from a host that isn't in their hosts any
// more. The next apply does what is left to do: the gained host has the same objects as the first one, with their
// content, and the lost one has nothing. A host that leaves the provider's hosts and comes back has the objects still.
func TestAccFaults_hostsKilled(t *testing.T) {
	t.Parallel()
	o, all := newObjects(t, "10.219.12", "kvm1", "kvm2")
	all = slices.DeleteFunc(all, func(is object) bool { return is.kind == "volume" || is.kind == "network_dhcp_host" })
	first, second := o.hosts[0], o.hosts[1]
	everywhere := func(is object) string { return is.created }
	onSecond := func(is object) string { return fmt.Sprintf("%s\n  hosts = [%q]", is.created, second.Name) }
	update := func(object) string { return "update" }
	// whole objects are there with all that they are, or not at all: nothing is left to do but to forget their creation.
	whole := func(is object) bool { return is.kind == "network_filter" || is.kind == "secret" }
	// identities are what tells the host's objects from others of the same names.
	identities := func() string {
		id := o.l.Run(t, o.h.Name, "sh", "-ec", strings.ReplaceAll(`
virsh net-uuid NAME
virsh pool-uuid NAME
virsh -q nwfilter-list | grep " NAME$"
virsh -q secret-list | grep "ceph  *NAME$"`, "NAME", o.name))
		return strings.Join(strings.Fields(id), " ")
	}
	nothing := func() {
		t.Helper()
		for _, is := range all {
			if is.made() {
				t.Errorf("host %s has the %s", o.h.Name, is.kind)
			}
		}
		if all := o.secrets(); len(all) > 0 {
			t.Errorf("host %s has the secrets %v", o.h.Name, all)
		}
	}
	made, removed := func(is object) func() bool { return is.made }, func(is object) func() bool { return is.removed }

	o.hosts = []*lab.Host{first}
	o.configure(t, all, everywhere)
	o.tf.Run(t, "apply")
	o.complete(t, "old", "hush")
	created := identities()
	o.h = second
	nothing()

	o.hosts = append(o.hosts, second)
	o.killed(t, all, "apply", everywhere, made)
	o.plans(t, all, func(is object) string {
		if whole(is) {
			return "no-op"
		}
		return "update"
	})
	o.tf.Run(t, "apply")
	for _, o.h = range o.hosts {
		o.has(t, "old", "hush")
		if is := identities(); is != created {
			t.Errorf("host %s has %s; want %s", o.h.Name, is, created)
		}
	}

	// A host that the provider's hosts no longer list keeps its objects, and they are the same ones when it is back.
	o.hosts = []*lab.Host{first}
	o.configure(t, all, everywhere)
	out := o.tf.Run(t, "apply")
	if !strings.Contains(out, "Warning: Host is not configured any more") ||
		!strings.Contains(out, fmt.Sprintf("and %d more similar warnings", len(all)-1)) {
		t.Errorf("not each object has a warning: %s", out)
	}
	o.h = first
	o.has(t, "old", "hush")
	o.hosts = []*lab.Host{first, second}
	o.configure(t, all, everywhere)
	o.tf.Run(t, "apply")
	for _, o.h = range o.hosts {
		o.has(t, "old", "hush")
		if is := identities(); is != created {
			t.Errorf("host %s has %s; want %s", o.h.Name, is, created)
		}
	}

	o.h = first
	o.killed(t, all, "apply", onSecond, removed)
	o.plans(t, all, update)
	o.tf.Run(t, "apply")
	nothing()
	o.h = second
	o.complete(t, "old", "hush")
	if is := identities(); is != created {
		t.Errorf("host %s has %s; want %s", o.h.Name, is, created)
	}
	o.tf.Run(t, "destroy")
	for _, o.h = range o.hosts {
		nothing()
	}
}
