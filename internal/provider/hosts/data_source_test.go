package hosts_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/hosts"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "data." + hosts.TypeName + ".this"

// know expects a value in the state.
var know = acctest.Know(address)

func of(host, attribute string) string { return "hosts." + host + "." + attribute }

func names(want ...string) statecheck.StateCheck {
	checks := []knownvalue.Check{}
	for _, name := range want {
		checks = append(checks, knownvalue.StringExact(name))
	}
	return know("names", knownvalue.ListExact(checks))
}

func TestHosts_filteredByLabels(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	config := `provider "virtfleet" {
		hosts = { local = { uri = "test:///default", labels = { zone = "a", disk = "ssd" } } }
	}
	`
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: config + `data "virtfleet_hosts" "this" {}`,
			ConfigStateChecks: []statecheck.StateCheck{
				names("local"),
				know(of("local", "driver"), knownvalue.StringExact("TEST")),
			},
		}, {
			Config:            config + `data "virtfleet_hosts" "this" { labels = { zone = "a" } }`,
			ConfigStateChecks: []statecheck.StateCheck{names("local")},
		}, {
			Config: config + `data "virtfleet_hosts" "this" { labels = { zone = "a", disk = "hdd" } }`,
			ConfigStateChecks: []statecheck.StateCheck{
				names(),
				know("hosts", knownvalue.MapExact(map[string]knownvalue.Check{})),
			},
		}},
	})
}

func TestHosts_onlyHostFromURI(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: `provider "virtfleet" { uri = "test:///default" }
				data "virtfleet_hosts" "this" {}`,
			ConfigStateChecks: []statecheck.StateCheck{
				names("default"),
				know(of("default", "reachable"), knownvalue.Bool(true)),
			},
		}},
	})
}

func TestAccHosts_silentOneIsListed(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	config := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1"), Settings: `labels = { zone = "a" }`},
		{Of: l.Host("kvm2"), Settings: `labels = { zone = "b" }`},
		{Name: "silent", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system", Settings: `labels = { zone = "b" }`},
	}}.String()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: config + `data "virtfleet_hosts" "this" {}`,
			ConfigStateChecks: []statecheck.StateCheck{
				names("kvm1", "kvm2", "silent"),
				know(of("kvm1", "uuid"), knownvalue.StringExact(l.Host("kvm1").HostUUID)),
				know(of("kvm2", "uuid"), knownvalue.StringExact(l.Host("kvm2").HostUUID)),
				know(of("silent", "reachable"), knownvalue.Bool(false)),
				know(of("silent", "error"), knownvalue.StringRegexp(regexp.MustCompile("connection refused"))),
				know(of("silent", "uuid"), knownvalue.Null()),
			},
		}, {
			Config:            config + `data "virtfleet_hosts" "this" { labels = { zone = "b" } }`,
			ConfigStateChecks: []statecheck.StateCheck{names("kvm2", "silent")},
		}},
	})
}

// TestAccHosts_details: what is included is read of each host, and the rest is null. Each host
// reports its role for a VM.
func TestAccHosts_details(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	first, second := l.StartHost(t), l.StartHost(t)
	vm := func(id, suffix string) string {
		return fmt.Sprintf(`<domain type="qemu"><name>%s-%s</name><uuid>%s</uuid><memory unit="MiB">32</memory>
  <os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, lab.Name(t), suffix, id)
	}
	off, moved := uuid.NewString(), uuid.NewString()
	l.Define(t, first.Name, vm(off, "off"), vm(moved, "moved"))
	l.Define(t, second.Name, vm(moved, "moved"))
	l.Virsh(t, second.Name, "start", moved)
	role := func(role, status string) knownvalue.Check {
		return knownvalue.ObjectPartial(map[string]knownvalue.Check{
			"role": knownvalue.StringExact(role), "status": knownvalue.StringExact(status),
		})
	}
	cards := func(h *lab.Host) knownvalue.Check {
		all := map[string]knownvalue.Check{}
		for _, name := range strings.Fields(l.Virsh(t, h.Name, "nodedev-list", "--cap", "net")) {
			all[name] = knownvalue.ObjectPartial(map[string]knownvalue.Check{"capability": knownvalue.StringExact("net")})
		}
		return knownvalue.MapExact(all)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: first}, {Of: second}}}.String() +
				`data "virtfleet_hosts" "this" {
  include                  = ["virtual_machines", "node_devices"]
  node_device_capabilities = ["net"]
}`,
			ConfigStateChecks: []statecheck.StateCheck{
				names(first.Name, second.Name),
				know(of(first.Name, "virtual_machines"), knownvalue.MapExact(map[string]knownvalue.Check{
					off: role("defined", "Stopped"), moved: role("stale", "Running"),
				})),
				know(of(second.Name, "virtual_machines"), knownvalue.MapExact(map[string]knownvalue.Check{
					moved: role("active", "Running"),
				})),
				know(of(first.Name, "node_devices"), cards(first)),
				know(of(second.Name, "node_devices"), cards(second)),
				know(of(first.Name, "numa_cells"), knownvalue.Null()),
				know(of(second.Name, "sysinfo"), knownvalue.Null()),
			},
		}},
	})
}

// TestAccHosts_oneHostTwice proves that two entries which lead to one host are refused with both names: every VM of
// the host would be listed twice.
func TestAccHosts_oneHostTwice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	config := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")}, {Name: "other", Of: l.Host("kvm1")},
	}}.String()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config:      config + `data "virtfleet_hosts" "this" {}`,
			ExpectError: regexp.MustCompile(`(?s)Unable to read hosts.*"kvm1".*"other".*` + l.Host("kvm1").HostUUID),
		}},
	})
}
