package virtualmachines_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachines"
)

func TestMain(m *testing.M) { acctest.Main(m) }

func TestVirtualMachines_ofTheTestDriver(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	// What libvirt's test driver always has.
	const id = "6695eb01-f6a4-8304-79aa-97f2502e193f"
	at := func(attribute string) string { return "virtual_machines." + id + "." + attribute }
	know := acctest.Know("data." + virtualmachines.TypeName + ".this")
	some := knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact(id)})
	none := knownvalue.ListExact([]knownvalue.Check{})
	step := func(settings string, checks ...statecheck.StateCheck) resource.TestStep {
		return resource.TestStep{
			Config: acctest.Local("") + fmt.Sprintf("data %q \"this\" {\n%s\n}\n", virtualmachines.TypeName,
				settings),
			ConfigStateChecks: checks,
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step("", know("ids", some), know(at("name"), knownvalue.StringExact("test")),
				know(at("status"), knownvalue.StringExact("Running")), know(at("phase"), knownvalue.StringExact("Running")),
				know(at("run_strategy"), knownvalue.Null()), know(at("error"), knownvalue.Null()),
				know(at("vcpus"), knownvalue.Int64Exact(2)), know(at("memory_bytes"), knownvalue.Int64Exact(2<<30)),
				know(at("conditions.Ready"), knownvalue.StringExact("True")),
				// No host was asked.
				know(at("conditions.LiveMigratable"), knownvalue.StringExact("Unknown")),
				know("unreachable_hosts", none)),
			step(`phase = "Failed"`, know("ids", none)),
			step(`host = "elsewhere"`, know("ids", none)),
			step(`labels = { app = "web" }`, know("ids", none)),
			step(`condition = { type = "Paused" }`, know("ids", none)),
			step(`condition = { type = "Paused", status = "False" }`, know("ids", some)),
			step(`condition = { type = "Started", reason = "Crashed" }`, know("ids", none)),
		},
	})
}

// TestAccVirtualMachines_ofAFleet: VMs of all hosts are listed in one pass, with which of them is paused for which
// reason. Those of a silent host aren't taken for gone: on_unreachable says whether that is an error or a warning.
func TestAccVirtualMachines_ofAFleet(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	app := lab.Name(t)
	define := func(host, suffix string) (id, name string) {
		id, name = uuid.NewString(), app+suffix
		l.Define(t, host, fmt.Sprintf(`<domain type="qemu"><name>%[1]s</name><uuid>%[2]s</uuid>
  <metadata><virtfleet:vm xmlns:virtfleet="urn:virtfleet:1" version="1" uuid="%[2]s"><virtfleet:labels>
    <virtfleet:label key="app" value="%[3]s"/></virtfleet:labels></virtfleet:vm></metadata>
  <memory unit="MiB">32</memory><os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, name, id, app))
		return id, name
	}
	off, _ := define("kvm1", "-a")
	paused, pausedName := define("kvm2", "-b")
	running, runningName := define("kvm1", "-c")
	l.Virsh(t, "kvm2", "start", "--paused", pausedName)
	l.Virsh(t, "kvm1", "start", runningName)

	tf := acctest.NewCLI(t)
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: l.Host("kvm1")},
		{Of: l.Host("kvm2")},
		{Name: "silent", URI: "qemu+ssh://root@" + l.Host("kvm1").Address + ":9/system"},
	}}
	configure := func(provider, settings string) {
		t.Helper()
		tf.Config(t, fmt.Sprintf("%s\ndata %q \"this\" {\n  labels = { app = %q }\n  %s\n}\n", provider,
			virtualmachines.TypeName, app, settings))
	}
	tells := func(out string, told bool) {
		t.Helper()
		out = strings.Join(strings.Fields(strings.ReplaceAll(out, "\u2502", "")), " ")
		for _, part := range []string{`"silent" does not answer`, "are missing", "connection refused"} {
			if strings.Contains(out, part) != told {
				t.Errorf("%q is to be said: %t\n%s", part, told, out)
			}
		}
	}
	configure(block.String(), "")
	tells(tf.Fail(t, "plan"), true)
	configure(block.String(), `host = "kvm1"`)
	tells(tf.Run(t, "plan"), false)

	block.Settings = `on_unreachable = "keep"`
	read := func(settings string) ([]any, map[string]any) {
		t.Helper()
		configure(block.String(), settings)
		tells(tf.Run(t, "apply"), !strings.Contains(settings, "host ="))
		state, _ := tf.State(t, virtualmachines.TypeName+".this")
		ids, _ := state["ids"].([]any)
		if silent := fmt.Sprint(state["unreachable_hosts"]); silent != "[silent]" {
			t.Errorf("silent hosts are %s", silent)
		}
		machines, _ := state["virtual_machines"].(map[string]any)
		return ids, machines
	}
	for settings, want := range map[string][]any{
		"":                                 {off, paused, running},
		`host = "kvm1"`:                    {off, running},
		`phase = "Running"`:                {paused, running},
		`condition = { type = "Ready" }`:   {running},
		`condition = { type = "Started" }`: {paused, running},
		`condition = { type = "Paused", reason = "PausedByUser" }`: {paused},
	} {
		ids, machines := read(settings)
		if !slices.Equal(ids, want) || len(machines) != len(want) {
			t.Errorf("%s: %v, want %v", settings, ids, want)
		}
	}
}
