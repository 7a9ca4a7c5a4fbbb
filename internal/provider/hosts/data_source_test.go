package hosts_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/hosts"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "data." + hosts.TypeName + ".this"

func know(at tfjsonpath.Path, want knownvalue.Check) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(address, at, want)
}

func names(want ...string) statecheck.StateCheck {
	checks := []knownvalue.Check{}
	for _, name := range want {
		checks = append(checks, knownvalue.StringExact(name))
	}
	return know(tfjsonpath.New("names"), knownvalue.ListExact(checks))
}

func of(host, attribute string) tfjsonpath.Path {
	return tfjsonpath.New("hosts").AtMapKey(host).AtMapKey(attribute)
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
				know(tfjsonpath.New("hosts"), knownvalue.MapExact(map[string]knownvalue.Check{})),
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

// TestAccHosts_oneHostTwice proves that two entries which lead to one host are refused with both names: every virtual
// machine of it would be there twice.
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
