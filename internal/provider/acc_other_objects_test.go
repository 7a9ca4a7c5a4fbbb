package provider_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_leavesOtherObjects: a host that was silent when an object was created may have another one of its
// name, and so may a host that is added to hosts later, or to the provider. The plan refuses to change it, and names
// the host. A destroy leaves it and says so. Once it is gone, the host gets the resource's object. A host whose key in
// the provider's hosts changes keeps the resource's objects.
func TestAccProvider_leavesOtherObjects(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	theirs := uuid.NewString()
	named := strings.NewReplacer("NAME", name, "UUID", theirs)
	commands := func(text string) { l.Run(t, "kvm2", "sh", "-ec", named.Replace(text)) }
	const remove = `
virsh pool-undefine NAME
virsh net-undefine NAME
virsh nwfilter-undefine NAME
virsh secret-undefine UUID`
	commands(`
cd /tmp
echo '<pool type="dir"><name>NAME</name><uuid>UUID</uuid><target><path>/srv/NAME</path></target></pool>' >NAME.xml
virsh pool-define NAME.xml
echo '<network><name>NAME</name><uuid>UUID</uuid><mtu size="1400"/></network>' >NAME.xml
virsh net-define NAME.xml
echo '<filter name="NAME"><uuid>UUID</uuid><rule action="accept" direction="out"/></filter>' >NAME.xml
virsh nwfilter-define NAME.xml
echo '<secret><uuid>UUID</uuid><usage type="ceph"><name>NAME</name></usage></secret>' >NAME.xml
virsh secret-define NAME.xml
rm NAME.xml`)
	t.Cleanup(func() {
		_, _ = l.Host("kvm2").Run(context.WithoutCancel(t.Context()), "sh", "-c", named.Replace(remove))
	})
	uuids := func(host string) string {
		t.Helper()
		return strings.TrimSpace(l.Run(t, host, "sh", "-c", named.Replace(`
virsh pool-uuid NAME
virsh net-uuid NAME
virsh nwfilter-dumpxml NAME | grep -o '[-0-9a-f]\{36\}'
virsh secret-list | grep 'ceph *NAME$' | grep -o '[-0-9a-f]\{36\}'
true`)))
	}
	all := strings.Repeat(theirs+" ", 4)
	definitions := func() string {
		t.Helper()
		return l.Run(t, "kvm2", "sh", "-ec", named.Replace(
			"virsh pool-dumpxml NAME; virsh net-dumpxml NAME; virsh nwfilter-dumpxml NAME; virsh secret-dumpxml UUID"))
	}
	untouched := definitions()
	blocks := func(hosts string) string {
		return strings.NewReplacer("NAME", name, "HOSTS", hosts).Replace(`
resource "virtfleet_storage_pool" "this" {
  name   = "NAME"
  type   = "dir"
  target = { path = "/var/lib/libvirt/NAME" }
  HOSTS
}
resource "virtfleet_network" "this" {
  name = "NAME"
  HOSTS
}
resource "virtfleet_network_filter" "this" {
  name  = "NAME"
  rules = [{ action = "drop", direction = "in", protocol = "tcp" }]
  HOSTS
}
resource "virtfleet_secret" "this" {
  usage    = "ceph"
  usage_id = "NAME"
  value_wo = "hush"
  HOSTS
}
`)
	}
	tf := acctest.NewCLI(t)
	refuses := func() {
		t.Helper()
		out := strings.Join(strings.Fields(tf.Fail(t, "plan")), " ")
		for _, noun := range []string{"storage pool", "network", "network filter", "secret"} {
			if want := "Unable to update " + noun + " "; !strings.Contains(out, want) {
				t.Errorf("the plan doesn't say %q: %s", want, out)
			}
		}
		if n := strings.Count(out, "Host: kvm2"); n != 4 || strings.Contains(out, "Host: kvm1") {
			t.Errorf("%d errors about kvm2, want 4: %s", n, out)
		}
		if is := uuids("kvm2"); strings.Join(strings.Fields(is), " ") != strings.TrimSpace(all) {
			t.Errorf("kvm2 has %s", is)
		}
	}

	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")}, {Name: "kvm2", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"},
	}}.String()+blocks(""))
	tf.Run(t, "apply")
	tf.Config(t, acctest.Config(l)+blocks(`hosts = ["kvm1", "kvm2"]`))
	refuses()
	out := strings.Join(strings.Fields(tf.Run(t, "destroy", "-refresh=false")), " ")
	if n := strings.Count(out, "hasn't created it"); n != 4 {
		t.Errorf("%d warnings about what stays, want 4: %s", n, out)
	}
	if is := uuids("kvm2"); strings.Join(strings.Fields(is), " ") != strings.TrimSpace(all) {
		t.Errorf("after the destroy kvm2 has %s", is)
	}
	if is := uuids("kvm1"); is != "" {
		t.Errorf("after the destroy kvm1 has %s", is)
	}

	// Without hosts, a resource is on each host that is added to the provider's.
	tf.Config(t, acctest.OneHost(l)+blocks(""))
	tf.Run(t, "apply")
	// Their UUIDs say whose the objects are under another key of the host, and under the first one again.
	created := uuids("kvm1")
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Name: "renamed", Of: l.Host("kvm1")}}}.String()+blocks(""))
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty after the host's key has changed: %s", out)
	}
	l.Run(t, "kvm1", "sh", "-ec", named.Replace(`
virsh nwfilter-dumpxml NAME | sed s/drop/accept/ >/tmp/NAME.xml
virsh nwfilter-define /tmp/NAME.xml
rm /tmp/NAME.xml`))
	if out, empty := tf.Empty(t); empty || !strings.Contains(out, "Plan: 0 to add, 1 to change, 0 to destroy") {
		t.Errorf("the plan doesn't change the filter back: %s", out)
	}
	tf.Run(t, "apply")
	if is := uuids("kvm1"); is != created || len(strings.Fields(is)) != 4 {
		t.Errorf("under its new key the host has %s, had %s", is, created)
	}
	if is := l.Virsh(t, "kvm1", "nwfilter-dumpxml", name); !strings.Contains(is, "action='drop'") {
		t.Errorf("the filter wasn't changed back: %s", is)
	}
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}}}.String()+
		blocks(""))
	out = strings.Join(strings.Fields(tf.Run(t, "plan")), " ")
	if n := strings.Count(out, "apply fails on this host"); n != 4 {
		t.Errorf("%d warnings about kvm2, want 4: %s", n, out)
	}
	out = strings.Join(strings.Fields(tf.Fail(t, "apply")), " ")
	for _, noun := range []string{"storage pool", "network", "network filter", "secret"} {
		if want := "Error: Unable to update " + noun + " "; !strings.Contains(out, want) {
			t.Errorf("the apply doesn't say %q: %s", want, out)
		}
	}
	out = strings.Join(strings.Fields(tf.Run(t, "destroy")), " ")
	if n := strings.Count(out, "hasn't created it"); n != 4 {
		t.Errorf("%d warnings about what stays, want 4: %s", n, out)
	}
	if is := definitions(); is != untouched {
		t.Errorf("kvm2 has %s, want %s", is, untouched)
	}
	if is := uuids("kvm1"); is != "" {
		t.Errorf("after the destroy kvm1 has %s", is)
	}

	tf.Config(t, acctest.Config(l)+blocks(`hosts = ["kvm1"]`))
	tf.Run(t, "apply")
	// They say it also if the objects name their hosts. The other host's objects aren't theirs.
	created = uuids("kvm1")
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Name: "renamed", Of: l.Host("kvm1")}, {Of: l.Host("kvm2")},
	}}.String()+blocks(`hosts = ["renamed"]`))
	out = tf.Run(t, "apply")
	if !strings.Contains(out, "0 added, 4 changed, 0 destroyed") || strings.Contains(out, "not configured any more") {
		t.Errorf("the apply with the host's new key: %s", out)
	}
	if is := uuids("kvm1"); is != created {
		t.Errorf("under its new key in hosts the host has %s, had %s", is, created)
	}
	tf.Config(t, acctest.Config(l)+blocks(`hosts = ["kvm1", "kvm2"]`))
	refuses()
	if is := definitions(); is != untouched {
		t.Errorf("kvm2 has %s, want %s", is, untouched)
	}
	commands(remove)
	tf.Run(t, "apply")
	if is, first := uuids("kvm2"), uuids("kvm1"); is != first || strings.Contains(is, theirs) {
		t.Errorf("kvm2 has %s, kvm1 %s", is, first)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	tf.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		if left := uuids(host); left != "" {
			t.Errorf("%s has %s", host, left)
		}
	}
}
