package networkfilter_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

func TestNetworkFilter_refused(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	step := func(says, want string) resource.TestStep {
		return resource.TestStep{
			Config:      acctest.Local("") + "resource \"virtfleet_network_filter\" \"this\" {\nname = \"f\"\n" + says + "\n}",
			ExpectError: regexp.MustCompile(want), PlanOnly: true,
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step(`xml = "<filter"`, "xml can't be\\s+read"),
			step(`xml = "<network/>"`, "must be <filter>"),
			step(`xml = "<filter name='g'/>"`, "names the filter \"g\""),
			step("xml = \"<filter/>\"\nchain = \"root\"", "xml"),
			step(`rules = [{ action = "forbid", direction = "in" }]`, "reject"),
			step(`rules = [{ action = "drop", direction = "in", protocol = "<tcp>" }]`, "such as \"tcp\""),
			step(`rules = [{ action = "accept", direction = "in", protocol = "tpc" }]`, "no protocol\\s+\"tpc\""),
			step(`rules = [{ action = "accept", direction = "in", protocol = "tcp", match = { dstportstrt = "22" } }]`,
				"no field\\s+\"dstportstrt\""),
		},
	})
}

// TestAccNetworkFilter is the life of a filter on two hosts: made, added to a host, changed, changed on one host alone
// and back, repaired, kept while it is used, imported, removed from a host.
func TestAccNetworkFilter(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const address = "virtfleet_network_filter.this"
	config := func(says string) string {
		return fmt.Sprintf("%s\nresource \"virtfleet_network_filter\" \"this\" {\n  name = %q\n  %s\n}\n",
			acctest.Config(l), name, says)
	}
	rules := func(port string) string {
		return config(`rules = [
			{ action = "accept", direction = "in", protocol = "tcp", match = { dstportstart = "` + port + `" } },
			{ action = "drop", direction = "in", priority = 900, protocol = "all" },
		]`)
	}
	full := config(`chain = "ipv4"
		priority   = -650
		references = ["no-arp-spoofing", "no-mac-spoofing"]
		rules = [
			{ action = "accept", direction = "in", priority = 100, protocol = "tcp", state_match = false,
			  match = { dstportstart = "22", dstportend = "23", srcipaddr = "192.0.2.0", srcipmask = "24" } },
			{ action = "return", direction = "inout", protocol = "udp-ipv6", match = { dstportstart = "53", comment = "DNS" } },
			{ action = "drop", direction = "in", priority = 900, protocol = "ip", match = { srcipaddr = "$IP" }, negate = true },
			{ action = "reject", direction = "in" },
		]`)
	on := func(host, port string) string {
		return strings.Replace(rules(port), "rules =", fmt.Sprintf("hosts = [%q]\n  rules =", host), 1)
	}
	silent := acctest.Block{Lab: l, Settings: `on_unreachable = "keep"`, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")},
		{Name: "kvm2", URI: "qemu+ssh://root@" + l.Host("kvm2").Address + ":9/system"},
	}}.String()
	everywhere := func(has, hasNot string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, host := range []string{"kvm1", "kvm2"} {
				if xml := l.Virsh(t, host, "nwfilter-dumpxml", name); !strings.Contains(xml, has) ||
					hasNot != "" && strings.Contains(xml, hasNot) {
					return fmt.Errorf("host %s: want %s, not %s, in %s", host, has, hasNot, xml)
				}
			}
			return nil
		}
	}
	update := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
		plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate),
	}}
	guest := fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory><os><type>hvm</type></os>
		<devices>		<interface type='bridge'><source bridge='%s'/><filterref filter='%s'/></interface></devices></domain>`,
		name, lab.LANBridge, name)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			for _, host := range []string{"kvm1", "kvm2"} {
				if all := l.Virsh(t, host, "nwfilter-list"); strings.Contains(all, name) {
					return fmt.Errorf("it is still on host %s", host)
				}
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: on("kvm1", "22")},
			{Config: rules("22"), ConfigPlanChecks: update, Check: everywhere("dstportstart='22'", "")},
			{Config: rules("80"), ConfigPlanChecks: update, Check: everywhere("dstportstart='80'", "dstportstart='22'")},
			{ // One host takes the new rules, and the other doesn't answer.
				Config: strings.Replace(rules("8080"), acctest.Config(l), silent, 1), ExpectError: regexp.MustCompile(`kvm2`),
			},
			{ // The former rules are those of the state, and yet not of the host that took the new ones.
				Config: rules("80"), ConfigPlanChecks: update, Check: everywhere("dstportstart='80'", "dstportstart='8080'"),
			},
			{ // Removed by hand on one host.
				PreConfig: func() { l.Virsh(t, "kvm2", "nwfilter-undefine", name) },
				Config:    rules("80"), ConfigPlanChecks: update, Check: everywhere("dstportstart='80'", ""),
			},
			{
				Config:           config(`xml = "<filter chain='root'><rule action='drop' direction='out'><all/></rule></filter>"`),
				ConfigPlanChecks: update, Check: everywhere("direction='out'", "dstportstart"),
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: name, ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"xml"}, // It is written as libvirt writes it.
			},
			{ // With a chain, references and rules of several forms, it is imported with generated configuration.
				Config: full, ConfigPlanChecks: update, Check: resource.ComposeTestCheckFunc(
					everywhere("<filterref filter='no-arp-spoofing'/>", ""), everywhere("statematch='false'", ""),
					everywhere("match='no'", "direction='out'"), everywhere("chain='ipv4' priority='-650'", "")),
			},
			{
				PreConfig: func() {
					before := l.Virsh(t, "kvm1", "nwfilter-dumpxml", name)
					acctest.ImportGenerated(t, acctest.Config(l), map[string]string{address: name})
					if now := l.Virsh(t, "kvm1", "nwfilter-dumpxml", name); now != before {
						t.Errorf("the import changed\n%s\nto\n%s", before, now)
					}
				},
				Config: full, PlanOnly: true,
			},
			{ // Used by a definition of one host, it isn't destroyed on any.
				PreConfig: func() { l.Define(t, "kvm1", guest) },
				Config:    rules("80"), Destroy: true, ExpectError: regexp.MustCompile("virtual machine\\s+" + name),
			},
			{ // Nor is it removed from that host.
				PreConfig: func() {
					if err := everywhere("dstportstart", "")(nil); err != nil {
						t.Error(err)
					}
				},
				Config: on("kvm2", "80"), ExpectError: regexp.MustCompile("virtual machine\\s+" + name),
			},
			{
				PreConfig: func() {
					if xml := l.Virsh(t, "kvm1", "nwfilter-dumpxml", name); !strings.Contains(xml, "dstportstart") {
						t.Errorf("host kvm1 has %s", xml)
					}
					l.Virsh(t, "kvm1", "undefine", name)
				},
				Config: on("kvm2", "80"),
				Check: func(*terraform.State) error {
					first, second := l.Virsh(t, "kvm1", "nwfilter-list"), l.Virsh(t, "kvm2", "nwfilter-list")
					if strings.Contains(first, name) || !strings.Contains(second, name) {
						return fmt.Errorf("host kvm1 has %s, and kvm2 %s", first, second)
					}
					return nil
				},
			},
		},
	})
}
