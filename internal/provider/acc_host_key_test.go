package provider_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_keyOfAnotherHost: if a key of the provider's hosts leads to another host, what that has under the
// names of the resources isn't theirs. It is neither changed nor removed, also without a refresh. Where the resources'
// objects are, they stay theirs under another key. A warning for each resource says which host they are on, and what to
// do, also before a resource leaves the state.
func TestAccProvider_keyOfAnotherHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	first, second, tf, name := l.StartHost(t), l.StartHost(t), acctest.NewCLI(t), lab.Name(t)
	on := func(h *lab.Host, commands string) string {
		t.Helper()
		return l.Run(t, h.Name, "sh", "-ec", strings.ReplaceAll(commands, "NAME", name))
	}
	const remove = "virsh pool-destroy NAME || true; virsh pool-undefine NAME; virsh net-destroy NAME || true; " +
		"virsh net-undefine NAME; virsh nwfilter-undefine NAME"
	const define = `
mkdir -p /srv/NAME
virsh pool-define-as NAME dir --target /srv/NAME
echo '<network><name>NAME</name><mtu size="1400"/></network>' >/run/NAME.xml
virsh net-define /run/NAME.xml
echo '<filter name="NAME"><rule action="accept" direction="out"/></filter>' >/run/NAME.xml
virsh nwfilter-define /run/NAME.xml`
	has := func(h *lab.Host) string {
		t.Helper()
		return on(h, "virsh pool-dumpxml --inactive NAME | grep -v bytes; virsh net-dumpxml NAME\n"+
			"virsh nwfilter-dumpxml NAME")
	}
	action, where := "drop", ""
	config := func(hosts ...acctest.Host) {
		t.Helper()
		tf.Config(t, acctest.Block{Lab: l, Hosts: hosts}.String()+strings.NewReplacer("NAME", name, "ACTION", action,
			"HOSTS", where, "AUTOSTART", strconv.FormatBool(action == "drop")).Replace(`
resource "virtfleet_storage_pool" "this" {
  name      = "NAME"
  type      = "dir"
  target    = { path = "/var/lib/libvirt/NAME" }
  autostart = AUTOSTART
  HOSTS
}
resource "virtfleet_network" "this" {
  name      = "NAME"
  autostart = AUTOSTART
  HOSTS
}
resource "virtfleet_network_filter" "this" {
  name  = "NAME"
  rules = [{ action = "ACTION", direction = "in", protocol = "tcp" }]
  HOSTS
}
`))
	}
	says := func(out, want string, times int) {
		t.Helper()
		if out = strings.Join(strings.Fields(out), " "); strings.Count(out, want) != times {
			t.Errorf("%d times %q, want %d: %s", strings.Count(out, want), want, times, out)
		}
	}
	// warns are the warnings of the three resources, if the host that has their objects is without a key.
	warns := func(out, key string, was, is *lab.Host) {
		t.Helper()
		for _, noun := range []string{"storage pool", "network", "network filter"} {
			says(out, fmt.Sprintf("Warning: Key leads to another host: %s %q", noun, name), 1)
			says(out, fmt.Sprintf("The %s %q stays on the former host", noun, name), 1)
		}
		says(out, fmt.Sprintf("hosts.%s led to the host with UUID %s, and now leads to the one with UUID %s.", key,
			was.HostUUID, is.HostUUID), 3)
	}
	on(second, define)
	theirs := has(second)
	stays := func(when string) {
		t.Helper()
		if is := has(second); is != theirs {
			t.Errorf("%s, the other host has:\n%s\nwant:\n%s", when, is, theirs)
		}
	}

	config(acctest.Host{Name: "one", Of: first})
	tf.Run(t, "apply")
	own := has(first)
	config(acctest.Host{Name: "one", Of: second})
	out := tf.Run(t, "plan")
	says(out, "Plan: 3 to add, 0 to change, 0 to destroy", 1)
	warns(out, "one", first, second)
	says(out, "If it isn't meant, correct its uri", 3)
	says(out, "give that host a key of its own", 3)
	action = "reject"
	config(acctest.Host{Name: "one", Of: second})
	out = tf.Run(t, "plan", "-refresh=false")
	says(out, "apply fails on this host", 3)
	warns(out, "one", first, second)
	action = "drop"
	config(acctest.Host{Name: "one", Of: second}, acctest.Host{Name: "two", Of: first})
	out = tf.Run(t, "plan")
	says(out, "apply fails on this host", 3)
	says(out, "stays this resource's on the former host, which is hosts.two now", 3)
	says(out, "by hand", 0)
	says(tf.Fail(t, "apply"), "Error: Unable to update ", 3)
	stays("after an apply with both hosts")
	if is := has(first); is != own {
		t.Errorf("the first host has:\n%s\nwant:\n%s", is, own)
	}
	out = tf.Run(t, "destroy")
	says(out, "hasn't created it", 3)
	says(out, "stays on the former host", 0)
	stays("after a destroy with both hosts")

	config(acctest.Host{Name: "one", Of: first})
	tf.Run(t, "apply")
	action = "reject"
	config(acctest.Host{Name: "one", Of: second})
	out = tf.Fail(t, "apply", "-refresh=false")
	says(out, "Error: Unable to update ", 3)
	warns(out, "one", first, second)
	stays("after an apply without a refresh")
	says(tf.Run(t, "destroy", "-refresh=false"), "hasn't created it", 3)
	stays("after a destroy without a refresh")
	on(first, remove)
	config(acctest.Host{Name: "one", Of: first})
	tf.Run(t, "apply")
	config(acctest.Host{Name: "one", Of: second})
	out = tf.Run(t, "destroy", "-refresh=false")
	says(out, "hasn't created it", 3)
	warns(out, "one", first, second)
	says(out, "do so by hand", 3)
	stays("after another destroy without a refresh")

	// A host that replaces another one, and has nothing, gets it all.
	on(first, remove)
	config(acctest.Host{Name: "one", Of: first})
	tf.Run(t, "apply")
	on(second, remove)
	config(acctest.Host{Name: "one", Of: second})
	warns(tf.Run(t, "apply"), "one", first, second)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	has(second)
	tf.Run(t, "destroy")

	// Nor is it removed when the key leaves hosts.
	third := l.StartHost(t)
	on(first, remove)
	on(third, define)
	theirs = has(third)
	config(acctest.Host{Name: "one", Of: first}, acctest.Host{Name: "two", Of: second})
	tf.Run(t, "apply")
	where = `hosts = ["one"]`
	config(acctest.Host{Name: "one", Of: first}, acctest.Host{Name: "two", Of: third})
	says(tf.Run(t, "apply", "-refresh=false"), "hasn't created it", 3)
	if is := has(third); is != theirs {
		t.Errorf("the host that isn't listed any more has:\n%s\nwant:\n%s", is, theirs)
	}
	on(second, remove)
	tf.Run(t, "destroy")
	for _, list := range []string{"pool-list", "net-list", "nwfilter-list"} {
		for _, h := range []*lab.Host{first, second} {
			if left := l.Virsh(t, h.Name, list); strings.Contains(left, name) {
				t.Errorf("%s on %s: %s", list, h.Name, left)
			}
		}
	}
}
