package host_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/host"
)

// everything includes all that there is.
const everything = `include = ["numa_cells", "cpu", "sysinfo", "node_devices", "virtual_machines"]`

// TestHost_detailsOfTheTestDriver: what is included is there, what the driver can't tell is null with the reason, and
// what isn't included is null without one.
func TestHost_detailsOfTheTestDriver(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	config := func(settings string) string {
		return acctest.Local("") + "data \"virtfleet_host\" \"this\" {\n  name = \"local\"\n  " + settings + "\n}\n"
	}
	object := func(pairs map[string]knownvalue.Check) knownvalue.Check { return knownvalue.ObjectPartial(pairs) }
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: config(""),
			ConfigStateChecks: []statecheck.StateCheck{
				know("numa_cells", knownvalue.Null()), know("cpu", knownvalue.Null()), know("sysinfo", knownvalue.Null()),
				know("node_devices", knownvalue.Null()), know("virtual_machines", knownvalue.Null()),
				know("cordoned", knownvalue.Bool(false)), know("cordon", knownvalue.Null()),
				know("unavailable", knownvalue.MapSizeExact(0)),
			},
		}, {
			Config: config(everything),
			ConfigStateChecks: []statecheck.StateCheck{
				know("numa_cells", knownvalue.ListPartial(map[int]knownvalue.Check{1: object(map[string]knownvalue.Check{
					"id": knownvalue.Int64Exact(1), "memory_bytes": knownvalue.Int64Exact(4 << 30),
					"unused_memory_bytes": knownvalue.Int64Exact(4 << 20), "cpus": knownvalue.ListSizeExact(8),
					"pages": knownvalue.ListPartial(map[int]knownvalue.Check{0: object(map[string]knownvalue.Check{
						"size_bytes": knownvalue.Int64Exact(8192), "total": knownvalue.Int64Exact(524288),
					})}),
				})})),
				know("sysinfo", object(map[string]knownvalue.Check{
					"bios_vendor": knownvalue.StringExact("LENOVO"), "serial": knownvalue.Null(),
				})),
				know("node_devices", knownvalue.MapPartial(map[string]knownvalue.Check{
					"scsi_host1": object(map[string]knownvalue.Check{
						"capability": knownvalue.StringExact("scsi_host"), "parent": knownvalue.StringExact("computer"),
						"iommu_group": knownvalue.Null(), "virtual_functions": knownvalue.Null(),
					}),
				})),
				know("virtual_machines", knownvalue.MapPartial(map[string]knownvalue.Check{
					"6695eb01-f6a4-8304-79aa-97f2502e193f": object(map[string]knownvalue.Check{
						"name": knownvalue.StringExact("test"), "role": knownvalue.StringExact("active"),
						"status": knownvalue.StringExact("Running"),
					}),
				})),
				know("cpu", knownvalue.Null()),
				know("unavailable", knownvalue.MapPartial(map[string]knownvalue.Check{"cpu": knownvalue.NotNull()})),
			},
		}, {
			Config:      config(`node_device_capabilities = ["pci"]`),
			ExpectError: regexp.MustCompile("Node devices aren't read"),
		}, {
			Config:      config(`include = ["weather"]`),
			ExpectError: regexp.MustCompile(`include\.0: "weather" isn't one of numa_cells, cpu`),
		}, {
			Config:            config("include = [\"node_devices\"]\n  node_device_capabilities = [\"pci\"]"),
			ConfigStateChecks: []statecheck.StateCheck{know("node_devices", knownvalue.MapSizeExact(0))},
		}},
	})
}

// TestAccHost_details compares what a real host says with what virsh says.
func TestAccHost_details(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name, id := lab.Name(t), uuid.NewString()
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><uuid>%s</uuid><memory unit="MiB">32</memory>
  <os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, name, id))
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+"data \"virtfleet_host\" \"this\" {\n  name = \"kvm1\"\n  "+everything+"\n}\n")
	before := nodeDevices(t, l)
	tf.Run(t, "apply")
	state, _ := tf.State(t, host.TypeName+".this")
	unavailable, _ := state["unavailable"].(map[string]any)
	t.Logf("unavailable: %v", unavailable)

	vms, _ := state["virtual_machines"].(map[string]any)
	if got := fmt.Sprint(vms[id]); got != fmt.Sprintf("map[name:%s role:defined status:Stopped]", name) {
		t.Errorf("the VM is %s", got)
	}
	sameCells(t, state, l.Virsh(t, "kvm1", "capabilities"), l.Virsh(t, "kvm1", "freepages", "--all"))

	cpu, _ := state["cpu"].(map[string]any)
	says := l.Virsh(t, "kvm1", "domcapabilities", "--virttype", fmt.Sprint(cpu["domain_type"]))
	if model := regexp.MustCompile(`<model fallback='\w+'>([^<]+)<`).FindStringSubmatch(says); model == nil ||
		cpu["host_model"] != model[1] {
		t.Errorf("host-model is %v, and virsh says %v", cpu["host_model"], model)
	}
	usable, _ := cpu["usable_models"].([]any)
	if n := strings.Count(says, "<model usable='yes'"); n == 0 || len(usable) != n {
		t.Errorf("%d models are usable, and virsh says %d", len(usable), n)
	}

	if said, err := l.TryVirsh(t, "kvm1", "sysinfo"); err != nil {
		if state["sysinfo"] != nil || unavailable["sysinfo"] == nil {
			t.Errorf("virsh has no system information (%v), and we have %v (%v)", err, state["sysinfo"], unavailable)
		}
	} else if got, _ := state["sysinfo"].(map[string]any); !strings.Contains(said, fmt.Sprint(got["manufacturer"])) {
		t.Errorf("got %v, and virsh says %s", got, said)
	}
	sameDevices(t, l, state, before)
}

// nodeDevices are the names of devices that virsh lists, by capability.
func nodeDevices(t *testing.T, l *lab.Lab) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, capability := range []string{"pci", "net", "storage", "usb_device"} {
		all[capability] = strings.Fields(l.Virsh(t, "kvm1", "nodedev-list", "--cap", capability))
	}
	return all
}

// sameCells compares the NUMA cells with libvirt's documents.
func sameCells(t *testing.T, state map[string]any, capabilities, freePages string) {
	t.Helper()
	cells, _ := state["numa_cells"].([]any)
	if n := strings.Count(capabilities, "<cell id="); n == 0 || len(cells) != n {
		t.Fatalf("%d cells, and virsh says %d", len(cells), n)
	}
	cell, _ := cells[0].(map[string]any)
	bytes, _ := cell["memory_bytes"].(float64)
	memory := regexp.MustCompile(`<memory unit='KiB'>(\d+)<`).FindStringSubmatch(capabilities)
	if got := fmt.Sprintf("%.0f", bytes/1024); got != memory[1] {
		t.Errorf("the cell has %s KiB, and virsh says %s", got, memory[1])
	}
	if cpus, _ := cell["cpus"].([]any); len(cpus) != strings.Count(capabilities, "<cpu id=")/len(cells) {
		t.Errorf("the cell has processors %v", cpus)
	}
	pages, _ := cell["pages"].([]any)
	if len(pages) == 0 {
		t.Fatal("the cell has no pages")
	}
	for _, p := range pages {
		pool, _ := p.(map[string]any)
		size, _ := pool["size_bytes"].(float64)
		size /= 1024
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^%.0fKiB: (\d+)$`, size)).FindStringSubmatch(freePages)
		if line == nil || pool["free"] == nil { // How many are free changes at any time.
			t.Errorf("of pages of %.0f KiB %v are free, and virsh says %s", size, pool["free"], freePages)
		}
	}
}

// sameDevices compares the node devices with virsh's list of them. Those of VMs come and go.
func sameDevices(t *testing.T, l *lab.Lab, state map[string]any, before map[string][]string) {
	t.Helper()
	devices, _ := state["node_devices"].(map[string]any)
	for capability, want := range nodeDevices(t, l) {
		t.Logf("%s: %d devices", capability, len(want))
		for _, name := range want {
			if !slices.Contains(before[capability], name) {
				continue
			}
			device, _ := devices[name].(map[string]any)
			if device == nil || device["capability"] != capability {
				t.Errorf("%s is %v", name, device)
				continue
			}
			says, err := l.TryVirsh(t, "kvm1", "nodedev-dumpxml", name)
			if err != nil {
				if slices.Contains(nodeDevices(t, l)[capability], name) {
					t.Error(err)
				}
				continue
			}
			for element, value := range map[string]any{
				"parent": device["parent"], "interface": device["device"], "address": device["address"],
			} {
				if s := regexp.MustCompile("<" + element + ">([^<]+)<").FindStringSubmatch(says); s != nil && value != s[1] {
					t.Errorf("%s: %s is %v, and virsh says %s", name, element, value, s[1])
				}
			}
		}
	}
}

// TestAccHost_cordoned: the mark is read from the host's own record, whoever put it there.
func TestAccHost_cordoned(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(own.Path(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := uuid.NewString()
	write("/var/lib/libvirt/record.xml", "<secret ephemeral='no' private='no'><uuid>"+id+
		"</uuid><usage type='vtpm'><name>virtfleet:host-record</name></usage></secret>")
	l.Virsh(t, own.Name, "secret-define", "/var/lib/libvirt/record.xml")
	mark := func(version int) {
		t.Helper()
		write("/var/lib/libvirt/record.json", fmt.Sprintf(`{"version":%d,"cordon":{"id":"c","owner":"alice@desk",`+
			`"since":"2026-01-02T03:04:05Z","why":"a new disk"}}`, version))
		l.Virsh(t, own.Name, "secret-set-value", id, "--plain", "--file", "/var/lib/libvirt/record.json")
	}
	config := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String() +
		fmt.Sprintf("data \"virtfleet_host\" \"this\" {\n  name = %q\n}\n", own.Name)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			PreConfig: func() { mark(1) },
			Config:    config,
			ConfigStateChecks: []statecheck.StateCheck{
				know("cordoned", knownvalue.Bool(true)),
				know("cordon", knownvalue.ObjectExact(map[string]knownvalue.Check{
					"owner": knownvalue.StringExact("alice@desk"), "since": knownvalue.StringExact("2026-01-02T03:04:05Z"),
					"reason": knownvalue.StringExact("a new disk"),
				})),
			},
		}, {
			// A record that can't be understood says neither yes nor no, and the rest of the host is known.
			PreConfig: func() { mark(99) },
			Config:    config,
			ConfigStateChecks: []statecheck.StateCheck{
				know("cordoned", knownvalue.Null()), know("reachable", knownvalue.Bool(true)),
				know("unavailable", knownvalue.MapPartial(map[string]knownvalue.Check{
					"cordon": knownvalue.StringRegexp(regexp.MustCompile("newer version")),
				})),
			},
		}},
	})
}
