package host_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/host"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "data." + host.TypeName + ".this"

// know expects a value in the state.
var know = acctest.Know(address)

func TestHost_testDriver(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.Local("") + `data "virtfleet_host" "this" { name = "local" }`,
			ConfigStateChecks: []statecheck.StateCheck{
				know("reachable", knownvalue.Bool(true)),
				know("error", knownvalue.Null()),
				know("driver", knownvalue.StringExact("TEST")),
				know("uri", knownvalue.StringExact("test:///default")),
				know("schedulable", knownvalue.Bool(true)),
				know("fenced", knownvalue.Bool(false)),
				know("labels", knownvalue.MapExact(map[string]knownvalue.Check{})),
				know("networks", knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("default")})),
				know("libvirt_version", knownvalue.StringRegexp(regexp.MustCompile(`^\d+\.\d+\.\d+$`))),
			},
		}, {
			Config:      acctest.Local("") + `data "virtfleet_host" "this" { name = "kvm9" }`,
			ExpectError: regexp.MustCompile(`"kvm9" is not among the provider's hosts: "local"`),
		}},
	})
}

func TestAccHost_real(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	kvm1 := l.Host("kvm1")
	config := acctest.Block{Lab: l, Hosts: []acctest.Host{{
		Of: kvm1, Settings: "labels = { zone = \"a\" }\n memory_limit = \"3Gi\"\n schedulable = false",
	}}}.String()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: config + `data "virtfleet_host" "this" { name = "kvm1" }`,
			ConfigStateChecks: []statecheck.StateCheck{
				know("reachable", knownvalue.Bool(true)),
				know("uuid", knownvalue.StringExact(kvm1.HostUUID)),
				know("hostname", knownvalue.StringExact("kvm1")),
				know("driver", knownvalue.StringExact("QEMU")),
				know("arch", knownvalue.StringExact("x86_64")),
				know("labels", knownvalue.MapExact(map[string]knownvalue.Check{"zone": knownvalue.StringExact("a")})),
				know("memory_limit_bytes", knownvalue.Int64Exact(3<<30)),
				know("schedulable", knownvalue.Bool(false)),
				know("guests", knownvalue.MapPartial(map[string]knownvalue.Check{
					"x86_64": knownvalue.ObjectPartial(map[string]knownvalue.Check{"domain_types": knownvalue.NotNull()}),
				})),
			},
		}},
	})
}

func TestAccHost_silent(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// Nothing listens there, and nothing else of the lab is cut off for it.
	silent := acctest.Host{Name: "silent", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"}
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, silent}}
	keep := block
	keep.Settings = `on_unreachable = "keep"`
	fenced := block
	fenced.Hosts = []acctest.Host{{Of: l.Host("kvm1")}, {Name: "silent", URI: silent.URI, Settings: "fenced = true"}}
	data := `data "virtfleet_host" "this" { name = "silent" }`
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			// By default a host that doesn't answer is an error.
			Config:      block.String() + data,
			ExpectError: regexp.MustCompile(`(?s)Unable to read host.*Host "silent" does not answer.*connection refused`),
		}, {
			// Told to keep, the configuration is known and the rest is null.
			Config: keep.String() + data,
			ConfigStateChecks: []statecheck.StateCheck{
				know("reachable", knownvalue.Bool(false)),
				know("error", knownvalue.StringRegexp(regexp.MustCompile("connection refused"))),
				know("uri", knownvalue.StringExact(silent.URI)),
				know("uuid", knownvalue.Null()),
				know("cpus", knownvalue.Null()),
				know("guests", knownvalue.Null()),
				know("networks", knownvalue.Null()),
			},
		}, {
			// The other host is none the worse for it.
			Config:            block.String() + `data "virtfleet_host" "this" { name = "kvm1" }`,
			ConfigStateChecks: []statecheck.StateCheck{know("reachable", knownvalue.Bool(true))},
		}, {
			// A host that is given up is described without being asked.
			Config: fenced.String() + data,
			ConfigStateChecks: []statecheck.StateCheck{
				know("reachable", knownvalue.Bool(false)),
				know("fenced", knownvalue.Bool(true)),
				know("error", knownvalue.Null()),
			},
		}},
	})
}
