package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetwork_answers: the DNS server of a network answers for every kind of record, and forwards the names of a
// domain to the server that is set for it, which is that of another network. Records come and go while the network is
// active. A forwarder requires a restart.
func TestAccNetwork_answers(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	c := acctest.NewCLI(t)
	bridge := "vd" + name[len(name)-6:]
	apply := func(forwarders, hosts, port, note string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "corp" {
  name   = "%[1]s-corp"
  domain = { name = "corp.test", local_only = true }
  dns    = { hosts = [{ ip = "10.218.9.7", names = ["db.corp.test"] }] }
  ips    = [{ address = "10.218.2.1/24" }]
}
resource "virtfleet_network" "this" {
  name   = %[1]q
  bridge = %[2]q
  domain = { name = "here.test", local_only = true }
  dns = {
    forwarders = [%[3]s]
    hosts = [
      { ip = "10.218.1.1", names = ["gw.here.test"] }, { ip = "fd00:218:1::1", names = ["gw.here.test"] }, %[4]s
    ]
    srv = [{
      service = "ldap", protocol = "tcp", domain = "here.test", target = "gw.here.test", port = %[5]s, priority = 5
      weight  = 9
    }]
    txt = [{ name = "note.here.test", value = %[6]q }]
  }
  ips        = [{ address = "10.218.1.1/24" }]
  depends_on = [virtfleet_network.corp]
}
`, name, bridge, forwarders, hosts, port, note))
		c.Run(t, "apply")
		if out, empty := c.Empty(t); !empty {
			t.Errorf("the plan should be empty: %s", out)
		}
	}
	var said string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the server said last: %s", said)
		}
	})
	// answers says what the server of the network says about a name. It reads its hosts again a moment after it is told.
	answers := func(kind, of, want string) {
		t.Helper()
		lab.Await(t, fmt.Sprintf("%s of %s: %s", kind, of, want), func() bool {
			said = l.Run(t, "kvm1", "sh", "-c", "busybox nslookup -type="+kind+" "+of+" 10.218.1.1 2>&1 || true")
			return strings.Contains(strings.Join(strings.Fields(said), " "), want)
		})
	}
	started := func() string { return l.Run(t, "kvm1", "cat", "/sys/class/net/"+bridge+"/ifindex") }
	const corp = `{ domain = "corp.test", address = "10.218.2.1" }`
	const absent = "NXDOMAIN"

	apply(corp, "", "389", "first")
	answers("a", "gw.here.test", "Name: gw.here.test Address: 10.218.1.1")
	answers("aaaa", "gw.here.test", "Name: gw.here.test Address: fd00:218:1::1")
	answers("ptr", "1.1.218.10.in-addr.arpa", "name = gw.here.test")
	answers("srv", "_ldap._tcp.here.test", "service = 5 9 389 gw.here.test")
	answers("txt", "note.here.test", `text = "first"`)
	answers("a", "web.here.test", absent)
	answers("a", "db.corp.test", "Name: db.corp.test Address: 10.218.9.7")
	answers("a", "other.corp.test", absent)

	before := started()
	apply(corp, `{ ip = "10.218.1.8", names = ["web.here.test"] }`, "636", "second")
	answers("a", "web.here.test", "Name: web.here.test Address: 10.218.1.8")
	answers("a", "gw.here.test", "Name: gw.here.test Address: 10.218.1.1")
	answers("srv", "_ldap._tcp.here.test", "service = 5 9 636 gw.here.test")
	answers("txt", "note.here.test", `text = "second"`)
	answers("a", "db.corp.test", "Name: db.corp.test Address: 10.218.9.7")
	// Names of two addresses, of which each has one of the other's, are exchanged.
	apply(corp, `{ ip = "10.218.1.8", names = ["gw.here.test"] }, { ip = "10.218.1.9", names = ["web.here.test"] }`, "636",
		"second")
	answers("a", "web.here.test", "Name: web.here.test Address: 10.218.1.9")
	apply(corp, `{ ip = "10.218.1.8", names = ["web.here.test"] }, { ip = "10.218.1.9", names = ["gw.here.test"] }`, "636",
		"second")
	answers("a", "web.here.test", "Name: web.here.test Address: 10.218.1.8")
	answers("ptr", "9.1.218.10.in-addr.arpa", "name = gw.here.test")
	apply(corp, "", "636", "second")
	answers("a", "web.here.test", absent)
	if now := started(); now != before {
		t.Errorf("the network was restarted: its bridge was number %s and is %s now", before, now)
	}

	// No server is asked about the domain any more.
	apply(`{ domain = "other.test", address = "10.218.2.1" }`, "", "636", "second")
	if now := started(); now == before {
		t.Error("a change of a forwarder doesn't restart the network")
	}
	answers("a", "db.corp.test", "REFUSED")
	answers("txt", "note.here.test", `text = "second"`)

	destroyAndCheck(t, l, c, name)
}
