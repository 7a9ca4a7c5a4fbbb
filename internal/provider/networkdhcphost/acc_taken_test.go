package networkdhcphost_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetworkDHCPHost_taken: no change of a reservation touches another one of its network. An address, a name or a
// MAC address that another one has is refused in the plan, and in an apply whose plan couldn't know it. The error names
// the other one and its hosts. What was made twice by hand isn't taken to be as applied. Two resources may swap their
// values.
func TestAccNetworkDHCPHost_taken(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	hosts := []string{"kvm1", "kvm2"}
	const web, db = "52:54:00:07:02:01", "52:54:00:07:02:02"
	c := acctest.NewCLI(t)
	// config has reservations, each as mac, end of the address, and name.
	config := func(reservations map[string][3]string) {
		t.Helper()
		text := acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name   = %q
  bridge = "vt%s"
  hosts  = ["kvm1", "kvm2"]
  ips = [
    { address = "10.213.10.1/24", dhcp = { ranges = [{ start = "10.213.10.100", end = "10.213.10.199" }] } },
    { address = "10.213.11.1/24", dhcp = {} },
  ]
}
`, name, name[len(name)-6:])
		for key, r := range reservations {
			text += fmt.Sprintf("resource \"virtfleet_network_dhcp_host\" %q {\n  network = virtfleet_network.this.name\n"+
				"  mac = %q\n  ip = \"10.213.%s\"\n  name = %q\n}\n", key, r[0], r[1], r[2])
		}
		c.Config(t, text)
	}
	// has compares the reservations of both definitions on each host.
	has := func(when string, want ...string) {
		t.Helper()
		slices.Sort(want)
		for _, host := range hosts {
			for _, flags := range [][]string{nil, {"--inactive"}} {
				xml := l.Virsh(t, host, append([]string{"net-dumpxml", name}, flags...)...)
				got := regexp.MustCompile(`<host mac='[^>]*>`).FindAllString(xml, -1)
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s: on %s %v: %v\nwant %v", when, host, flags, got, want)
				}
			}
		}
	}
	entry := func(mac, ip, name string) string {
		return fmt.Sprintf("<host mac='%s' name='%s' ip='10.213.%s'/>", mac, name, ip)
	}
	refused := func(when, out string, words ...string) {
		t.Helper()
		out = strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
		for _, word := range append(words, "kvm1, kvm2") {
			if !strings.Contains(out, word) {
				t.Errorf("%s: %q isn't in %s", when, word, out)
			}
		}
		if !strings.Contains(out, "already exists") || strings.Count(out, "Error: ") != 1 {
			t.Errorf("%s: want one error: %s", when, out)
		}
	}
	byHand := func(host, command, xml string) {
		t.Helper()
		l.Virsh(t, host, "net-update", name, command, "ip-dhcp-host", "--live", "--config", xml)
	}
	two := map[string][3]string{"web": {web, "10.50", "web"}, "db": {db, "10.60", "db"}}
	both := []string{entry(web, "10.50", "web"), entry(db, "10.60", "db")}
	changed := func(r [3]string) map[string][3]string { return map[string][3]string{"web": r, "db": two["db"]} }
	config(two)
	c.Run(t, "apply")
	has("created", both...)

	of := "10.213.10.60, mac \"" + db + "\", name \"db\""
	for what, r := range map[string][3]string{
		"ip": {web, "10.60", "web"}, "name": {web, "10.50", "db"}, "both": {web, "10.60", "db"},
		"replaced": {"52:54:00:07:02:03", "10.60", "web"},
	} {
		config(changed(r))
		refused(what, c.Fail(t, "plan"), of, "another value", name+"/"+db)
	}
	// A MAC address that a resource has, and keeps or changes otherwise, is no other resource's, replaced or new.
	const more, other, keeps = "52:54:00:07:02:03", "52:54:00:07:02:04", "with virtfleet_network_dhcp_host.db,"
	for what, r := range map[string]map[string][3]string{
		"mac":                    changed([3]string{db, "10.50", "web"}),
		"all of it":              changed(two["db"]),
		"mac, of one that moves": {"web": {db, "10.50", "web"}, "db": {db, "10.61", "db"}},
		"mac, of a new one":      {"web": two["web"], "db": two["db"], "new": {db, "10.70", "new"}},
		"ip of a new one":        {"web": two["web"], "db": two["db"], "new": {more, "10.60", "new"}},
		"one ip of two new ones": {
			"web": two["web"], "db": two["db"], "new": {more, "10.70", "n1"}, "newer": {other, "10.70", "n2"},
		},
		"one name of two new ones": {
			"web": two["web"], "db": two["db"], "new": {more, "10.70", "n"}, "newer": {other, "10.71", "n"},
		},
		"one mac of two new ones": {
			"web": two["web"], "db": two["db"], "new": {more, "10.70", "n1"}, "newer": {more, "10.71", "n2"},
		},
		"two that get one ip": {"web": {web, "10.70", "web"}, "db": {db, "10.70", "db"}},
	} {
		config(r)
		out := c.Fail(t, "plan")
		if strings.Count(out, "Error: ") != 1 || !strings.Contains(out, "already exists in another") {
			t.Errorf("%s: want one error: %s", what, out)
		}
		if r["db"] == two["db"] && strings.Contains(out, keeps) {
			t.Errorf("%s: the error isn't that of the resource that changes: %s", what, out)
		}
		if strings.Contains(out, "terraform import") {
			t.Errorf("%s: a resource has it, so it can't be imported: %s", what, out)
		}
	}
	// A plan that reads nothing looks as one that an apply makes again.
	config(changed([3]string{"52:54:00:07:02:03", "10.60", "web"}))
	if out := c.Run(t, "plan", "-refresh=false"); !strings.Contains(out, of) ||
		!strings.Contains(out, "The apply fails unless it removes the other reservation first") {
		t.Errorf("nothing was read: %s", out)
	}
	// The plan is of a time at which the value was free.
	config(changed([3]string{web, "10.70", "web"}))
	c.Run(t, "plan", "-out=planned")
	for _, host := range hosts {
		byHand(host, "add", entry("52:54:00:07:02:04", "10.70", "new"))
	}
	refused("another one added after the plan", c.Fail(t, "apply", "planned"), "10.213.10.70", "52:54:00:07:02:04")
	for _, host := range hosts {
		byHand(host, "delete", entry("52:54:00:07:02:04", "10.70", "new"))
	}
	has("after all that", both...)

	// libvirt has DHCP in one subnet of IPv4 only, and would refuse what is removed from there to be added in another one.
	config(changed([3]string{web, "11.60", "web"}))
	for _, command := range []string{"plan", "apply"} {
		if out := c.Fail(t, command); !strings.Contains(out, "Set ip to an address of 10.213.10.0/24") ||
			!strings.Contains(out, "dhcp") || strings.Contains(out, "removes this reservation") {
			t.Errorf("%s in a subnet without DHCP: %s", command, out)
		}
	}
	has("refused", both...)

	// A mac that is replaced keeps the address and the name of the resource.
	config(changed([3]string{"52:54:00:07:02:03", "10.50", "web"}))
	c.Run(t, "apply")
	config(changed([3]string{"52-54-00-07-02-01", "10.50", "web"}))
	if out := c.Fail(t, "apply"); !strings.Contains(out, "isn't a MAC address") {
		t.Errorf("the notation of a MAC address that libvirt refuses: %s", out)
	}
	has("replaced", entry("52:54:00:07:02:03", "10.50", "web"), both[1])
	config(two)
	c.Run(t, "apply")
	has("replaced again", both...)

	// libvirt's modify changes the first one with the address or the MAC address. If that is web, db has its address, too.
	modify := func(last [3]string) {
		t.Helper()
		for _, host := range hosts {
			again := entry(last[0], last[1], last[2])
			byHand(host, "delete", again)
			byHand(host, "add", again)
			byHand(host, "modify", entry(web, "10.60", "web"))
		}
	}
	modify(two["db"])
	config(changed([3]string{web, "10.60", "web"}))
	if out, empty := c.Empty(t); empty {
		t.Errorf("two reservations with one address are nothing to do: %s", out)
	}
	for of, other := range map[string]string{"web": db, "db": web} {
		refused("an address twice", c.Fail(t, "apply", "-target=virtfleet_network_dhcp_host."+of),
			"Error: Unable to update", "10.213.10.60, mac \""+other)
	}
	has("an address twice", entry(web, "10.60", "web"), both[1])
	config(two)
	c.Run(t, "apply", "-target=virtfleet_network_dhcp_host.web")
	has("the first one changed", both...)
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	// If it is db, web has two, and db has none. The plan changes web, so db's address may be free by then.
	modify(two["web"])
	if out, empty := c.Empty(t); empty {
		t.Errorf("two reservations of one computer are nothing to do: %s", out)
	}
	c.Run(t, "apply", "-target=virtfleet_network_dhcp_host.web")
	has("one of the two removed", both[0])
	c.Run(t, "apply")
	has("db again", both...)
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}

	// An address that one resource gives up may go to another one: which is first decides whether that works at once.
	config(map[string][3]string{"web": {web, "10.51", "web"}, "db": {db, "10.50", "db"}})
	c.Run(t, "plan")
	config(map[string][3]string{"other": {"52:54:00:07:02:05", "10.50", "web"}, "db": two["db"]})
	c.Run(t, "plan")

	// Two resources that swap their values do that in one apply.
	for what, swap := range map[string]map[string][3]string{
		"addresses swapped":           {"web": {web, "10.60", "web"}, "db": {db, "10.50", "db"}},
		"addresses and names swapped": {"web": {web, "10.60", "db"}, "db": {db, "10.50", "web"}},
	} {
		config(swap)
		c.Run(t, "apply")
		has(what, entry(web, swap["web"][1], swap["web"][2]), entry(db, swap["db"][1], swap["db"][2]))
		if out, empty := c.Empty(t); !empty {
			t.Errorf("%s: %s", what, out)
		}
		config(two)
		c.Run(t, "apply")
		has("swapped back", both...)
	}

	// Two resources with one reservation: only one creates it.
	config(map[string][3]string{"web": two["web"], "one": two["db"], "other": two["db"]})
	c.Run(t, "state", "rm", "virtfleet_network_dhcp_host.db")
	if out := c.Fail(t, "apply"); !strings.Contains(out, "already exists") {
		t.Error(out)
	}
	c.Run(t, "destroy")
	for _, host := range hosts {
		if l.Has(t, host, "net-list", name) {
			t.Errorf("host %s still has it", host)
		}
	}
}
