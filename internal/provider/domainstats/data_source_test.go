package domainstats_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/domainstats"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "data." + domainstats.TypeName + ".this"

// know expects a value in the state.
var know = acctest.Know(address)

// of is the path of what is known of a VM.
func of(id, value string) string { return "stats." + id + "." + value }

func data(settings string) string {
	return fmt.Sprintf("data %q \"this\" {\n  %s\n}\n", domainstats.TypeName, settings)
}

// define makes a VM by hand, with labels, a disk and an interface whose key is an alias, and perf events that need
// nothing of the CPU.
func define(t *testing.T, l *lab.Lab, host, label, words string) (id, name string) {
	t.Helper()
	id, name = uuid.NewString(), lab.Name(t)
	export := l.NBD(t, name, 16<<20)
	l.Define(t, host, fmt.Sprintf(`<domain type="qemu">
  <name>%s</name><uuid>%s</uuid><memory unit="MiB">160</memory><vcpu>2</vcpu>
  <metadata><virtfleet:vm xmlns:virtfleet="urn:virtfleet:1" version="1" uuid="%s"><virtfleet:labels>
    <virtfleet:label key="test" value="%s"/></virtfleet:labels></virtfleet:vm></metadata>
  <os><type arch="x86_64" machine="q35">hvm</type><kernel>%s</kernel><initrd>%s</initrd>
    <cmdline>%s noagent %s</cmdline></os>
  <features><acpi/></features>
  <perf><event name="cpu_clock" enabled="yes"/><event name="page_faults" enabled="yes"/>
    <event name="context_switches" enabled="yes"/><event name="task_clock" enabled="no"/></perf>
  <devices>
    <disk type="network" device="disk"><driver name="qemu" type="raw" cache="none"/>
      <source protocol="nbd" name="%s"><host name="%s" port="%d"/></source>
      <target dev="vda" bus="virtio"/><alias name="ua-disk-root"/></disk>
    <interface type="network"><source network="default"/><model type="virtio"/><alias name="ua-net-lan"/></interface>
    <serial type="file"><source path="%s"/></serial>
  </devices>
</domain>`, name, id, id, label, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, words, export.Name, export.Host,
		export.Port, lab.ConsoleLog(name)))
	return id, name
}

// domstats is what virsh says now.
func domstats(t *testing.T, l *lab.Lab, host, name string) map[string]string {
	t.Helper()
	return params(l.Virsh(t, host, "domstats", name), "=")
}

// params are the values that virsh prints, each after its name and a separator.
func params(printed, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(printed) {
		if param, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			all[param] = value
		}
	}
	return all
}

// between expects a number that only grows to be between what virsh said before and what it says after.
func between(t *testing.T, attribute, got, param string, unit float64, before, after map[string]string) {
	t.Helper()
	low, lowErr := strconv.ParseFloat(before[param], 64)
	high, highErr := strconv.ParseFloat(after[param], 64)
	value, err := strconv.ParseFloat(got, 64)
	if lowErr != nil || highErr != nil || err != nil {
		t.Errorf("%s is %q, %s was %q and is %q", attribute, got, param, before[param], after[param])
		return
	}
	// The last digit is lost on the way from nanoseconds to seconds and back.
	if value < low*unit*(1-1e-12) || value > high*unit*(1+1e-12) {
		t.Errorf("%s is %v, %s was %v and is %v", attribute, value, param, low, high)
	}
}

// TestAccDomainStats_saysWhatVirshSays brackets each reading with two of virsh: what only grows is in between, what
// stays is the same.
func TestAccDomainStats_saysWhatVirshSays(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, name := define(t, l, "kvm2", "one", "")
	l.Virsh(t, "kvm2", "start", name)
	var before map[string]string
	prefix := "stats." + id + "."
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			PreConfig: func() { before = domstats(t, l, "kvm2", name) },
			Config:    acctest.Config(l) + data(fmt.Sprintf(`virtual_machine_id = %q`, id)),
			Check: func(s *terraform.State) error {
				after := domstats(t, l, "kvm2", name)
				got := s.RootModule().Resources[address].Primary.Attributes
				for attribute, want := range map[string]struct {
					param string
					unit  float64
				}{
					"cpu.time_seconds":                {"cpu.time", 1e-9},
					"cpu.user_seconds":                {"cpu.user", 1e-9},
					"cpu.system_seconds":              {"cpu.system", 1e-9},
					"cpu.vcpus_online":                {"vcpu.current", 1},
					"vcpus.0.time_seconds":            {"vcpu.0.time", 1e-9},
					"vcpus.1.delay_seconds":           {"vcpu.1.delay", 1e-9},
					"memory.current_bytes":            {"balloon.current", 1024},
					"memory.maximum_bytes":            {"balloon.maximum", 1024},
					"disks.root.read_bytes":           {"block.0.rd.bytes", 1},
					"disks.root.read_requests":        {"block.0.rd.reqs", 1},
					"disks.root.read_seconds":         {"block.0.rd.times", 1e-9},
					"disks.root.capacity_bytes":       {"block.0.capacity", 1},
					"interfaces.lan.receive_packets":  {"net.0.rx.pkts", 1},
					"interfaces.lan.transmit_bytes":   {"net.0.tx.bytes", 1},
					"interfaces.lan.transmit_drops":   {"net.0.tx.drop", 1},
					"disks.root.flush_requests":       {"block.0.fl.reqs", 1},
					"disks.root.write_bytes":          {"block.0.wr.bytes", 1},
					"interfaces.lan.receive_bytes":    {"net.0.rx.bytes", 1},
					"vcpus.0.wait_seconds":            {"vcpu.0.wait", 1e-9},
					"interfaces.lan.transmit_packets": {"net.0.tx.pkts", 1},
					"disks.root.write_seconds":        {"block.0.wr.times", 1e-9},
					"interfaces.lan.transmit_errors":  {"net.0.tx.errs", 1},
					"disks.root.flush_seconds":        {"block.0.fl.times", 1e-9},
					"interfaces.lan.receive_drops":    {"net.0.rx.drop", 1},
					"disks.root.write_requests":       {"block.0.wr.reqs", 1},
					"interfaces.lan.receive_errors":   {"net.0.rx.errs", 1},
					"cpu.vcpus_maximum":               {"vcpu.maximum", 1},
					"perf.cpu_clock":                  {"perf.cpu_clock", 1},
					"perf.page_faults":                {"perf.page_faults", 1},
					"perf.context_switches":           {"perf.context_switches", 1},
				} {
					between(t, attribute, got[prefix+attribute], want.param, want.unit, before, after)
				}
				if n, clock := got[prefix+"perf.%"], got[prefix+"perf.cpu_clock"]; n != "3" || clock == "0" {
					t.Errorf("%s perf events, of the clock %s; want those that are enabled, and that they count", n, clock)
				}
				if got[prefix+"interfaces.lan.device"] != after["net.0.name"] || got[prefix+"disks.root.target"] != "vda" {
					t.Errorf("devices are %q and %q", got[prefix+"interfaces.lan.device"], got[prefix+"disks.root.target"])
				}
				return nil
			},
			ConfigStateChecks: []statecheck.StateCheck{
				know(of(id, "name"), knownvalue.StringExact(name)),
				know(of(id, "current_host"), knownvalue.StringExact("kvm2")),
				know(of(id, "state"), knownvalue.StringExact("Running")),
				know(of(id, "cpu.usage_percent"), knownvalue.Null()),
				know(of(id, "elapsed_seconds"), knownvalue.Null()),
				know(of(id, "dirty_rate_bytes_per_second"), knownvalue.Null()),
				// The balloon's driver wasn't asked, so what it would know isn't known.
				know(of(id, "memory.swap_in_bytes_per_second"), knownvalue.Null()),
			},
		}},
	})
}

// TestAccDomainStats_rates reads what changes of one VM: its rates, its guest's memory, and its migration. It
// proves that a VM that is off is no error, and is chosen by its labels, and that the dirty rate is measured in
// the mode that was asked for, or not at all: not in one that would crash the VM.
func TestAccDomainStats_rates(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	label := lab.Name(t)
	busy, name := define(t, l, "kvm1", label, "dirty=32")
	off, _ := define(t, l, "kvm2", label, "")
	l.Virsh(t, "kvm1", "start", name)
	number := func(least float64) knownvalue.Check {
		return knownvalue.Float64Func(func(v float64) error {
			if v < least {
				return fmt.Errorf("%v is less than %v", v, least)
			}
			return nil
		})
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.Config(l) + data(fmt.Sprintf("selector = { labels = { test = %q } }\n"+
				"interval = \"1s\"\n  dirty_rate_period = \"1s\"\n  jobs = true", label)),
			ConfigStateChecks: []statecheck.StateCheck{
				know("stats", knownvalue.MapSizeExact(2)),
				know(of(busy, "elapsed_seconds"), number(1)),
				know(of(busy, "cpu.usage_percent"), number(1)),
				know(of(busy, "cpu.vcpus_percent"), number(0.1)),
				know(of(busy, "vcpus.0.usage_percent"), number(0)),
				know(of(busy, "disks.root.read_bytes_per_second"), number(0)),
				know(of(busy, "interfaces.lan.transmit_bytes_per_second"), number(0)),
				know(of(busy, "dirty_rate_bytes_per_second"), knownvalue.NotNull()),
				know(of(busy, "job"), knownvalue.Null()),
				know(of(busy, "unavailable"), knownvalue.MapSizeExact(0)),
				know(of(off, "state"), knownvalue.StringExact("Shutoff")),
				know(of(off, "cpu"), knownvalue.Null()),
				know(of(off, "disks"), knownvalue.Null()),
				know(of(off, "unavailable.statistics"), knownvalue.StringRegexp(regexp.MustCompile("is Shutoff"))),
			},
		}, {
			Config: acctest.Config(l) + data(fmt.Sprintf("virtual_machines = [%q, %q]\n"+
				"dirty_rate_period = \"1s\"\n  dirty_rate_mode = \"dirty-ring\"", busy, off)),
			ConfigStateChecks: []statecheck.StateCheck{
				know("stats", knownvalue.MapSizeExact(2)),
				know(of(busy, "dirty_rate_bytes_per_second"), knownvalue.Null()),
				know(of(busy, "unavailable.dirty_rate"), knownvalue.StringRegexp(regexp.MustCompile("dirty-ring"))),
			},
		}, {
			Config: acctest.Config(l) + data(fmt.Sprintf("virtual_machine_id = %q\n"+
				"dirty_rate_period = \"1s\"\n  dirty_rate_mode = \"dirty-bitmap\"", busy)),
			ConfigStateChecks: []statecheck.StateCheck{
				know(of(busy, "dirty_rate_bytes_per_second"), knownvalue.Null()),
				know(of(busy, "unavailable.dirty_rate"), knownvalue.StringRegexp(regexp.MustCompile("dirty-bitmap.*kvm"))),
				know(of(busy, "state"), knownvalue.StringExact("Running")),
			},
		}},
	})
	memory(t, l, busy, name)
	migrating(t, l, busy, name)
}

// memory reads what only a guest on kvm1 knows of its memory, while it is paused.
func memory(t *testing.T, l *lab.Lab, id, name string) {
	t.Helper()
	l.AwaitConsole(t, "kvm1", name, lab.GuestUp)
	l.Virsh(t, "kvm1", "dommemstat", name, "--period", "1", "--live")
	lab.Await(t, "the guest to tell what memory it can use", func() bool {
		return domstats(t, l, "kvm1", name)["balloon.usable"] != ""
	})
	l.Virsh(t, "kvm1", "suspend", name)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.OneHost(l) + data(fmt.Sprintf(`virtual_machine_id = %q`, id)),
			Check: func(s *terraform.State) error {
				now := domstats(t, l, "kvm1", name)
				got := s.RootModule().Resources[address].Primary.Attributes
				for attribute, want := range map[string]struct {
					param string
					unit  int64
				}{
					"current_bytes":         {"balloon.current", 1024},
					"maximum_bytes":         {"balloon.maximum", 1024},
					"resident_bytes":        {"balloon.rss", 1024},
					"available_bytes":       {"balloon.available", 1024},
					"unused_bytes":          {"balloon.unused", 1024},
					"usable_bytes":          {"balloon.usable", 1024},
					"disk_caches_bytes":     {"balloon.disk_caches", 1024},
					"swap_in_bytes":         {"balloon.swap_in", 1024},
					"swap_out_bytes":        {"balloon.swap_out", 1024},
					"major_faults":          {"balloon.major_fault", 1},
					"minor_faults":          {"balloon.minor_fault", 1},
					"huge_page_allocations": {"balloon.hugetlb_pgalloc", 1},
					"huge_page_failures":    {"balloon.hugetlb_pgfail", 1},
				} {
					n, err := strconv.ParseInt(now[want.param], 10, 64)
					if value := got["stats."+id+".memory."+attribute]; err != nil || value != fmt.Sprint(n*want.unit) {
						t.Errorf("%s is %q, %s is %q", attribute, value, want.param, now[want.param])
					}
				}
				at, err := strconv.ParseInt(now["balloon.last-update"], 10, 64)
				told := got["stats."+id+".memory.last_update"]
				if err != nil || told != time.Unix(at, 0).UTC().Format(time.RFC3339) {
					t.Errorf("last_update is %q, balloon.last-update %q", told, now["balloon.last-update"])
				}
				return nil
			},
		}},
	})
	l.Virsh(t, "kvm1", "resume", name)
}

// migrating expects that a migration of a VM on kvm1 is reported with its progress, and is not disturbed by a
// measurement.
func migrating(t *testing.T, l *lab.Lab, id, name string) {
	t.Helper()
	l.RemoveDomain(t, name) // It may arrive on the other host.
	// One that still boots has next to nothing to be copied, and would have arrived before it is asked.
	l.AwaitConsole(t, "kvm1", name, lab.GuestWrites)
	l.Virsh(t, "kvm1", "migrate-setspeed", name, "1")
	ended := make(chan error, 1)
	job := func() map[string]string {
		t.Helper()
		return params(l.Virsh(t, "kvm1", "domjobinfo", "--rawstats", name), ": ")
	}
	var before map[string]string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			PreConfig: func() {
				go func() { ended <- l.Host("kvm1").Migrate(t.Context(), name, l.Host("kvm2")) }()
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for !strings.Contains(l.Virsh(t, "kvm1", "domjobinfo", name), "Memory remaining") {
					select {
					case <-tick.C:
					case err := <-ended:
						t.Fatalf("the migration ended with %v", err)
					}
				}
				before = job()
			},
			Check: func(s *terraform.State) error {
				after := job()
				got := s.RootModule().Resources[address].Primary.Attributes
				for attribute, want := range map[string]struct {
					param string
					unit  float64
				}{
					"data_total_bytes": {"memory_total", 1}, "disk_total_bytes": {"disk_total", 1},
					"data_processed_bytes": {"memory_processed", 1},
					"elapsed_seconds":      {"time_elapsed", 1e-3}, "iterations": {"memory_iteration", 1},
				} {
					between(t, attribute, got["stats."+id+".job."+attribute], want.param, want.unit, before, after)
				}
				return nil
			},
			Config: acctest.Config(l) + data(fmt.Sprintf("name = %q\n  jobs = true\n  dirty_rate_period = \"1s\"", name)),
			ConfigStateChecks: []statecheck.StateCheck{
				know(of(id, "current_host"), knownvalue.StringExact("kvm1")),
				know(of(id, "job.operation"), knownvalue.StringExact("MigrationOut")),
				know(of(id, "job.data_remaining_bytes"), knownvalue.NotNull()),
				know("virtual_machine_id", knownvalue.StringExact(id)),
				know(of(id, "cpu.time_seconds"), knownvalue.NotNull()),
				know(of(id, "dirty_rate_bytes_per_second"), knownvalue.Null()),
				know(of(id, "unavailable.dirty_rate"), knownvalue.StringRegexp(regexp.MustCompile("during a migration"))),
			},
		}},
	})
	l.Virsh(t, "kvm1", "domjobabort", name)
	if err := <-ended; err == nil {
		t.Error("the migration wasn't aborted")
	}
}

func TestAccDomainStats_badInput(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config:      acctest.Config(l) + data(``),
			ExpectError: regexp.MustCompile(`(?s)virtual_machine_id.*name.*virtual_machines.*selector`),
		}, {
			Config:      acctest.Config(l) + data(`virtual_machines = ["web"]`),
			ExpectError: regexp.MustCompile(`must be a UUID`),
		}, {
			Config: acctest.Config(l) + data(`
  virtual_machine_id = "0b5f3c1e-7d0f-4b43-9a5e-3c8f3d2a1b00"
  dirty_rate_period  = "1s"
  dirty_rate_mode    = "bitmap"`),
			ExpectError: regexp.MustCompile(`dirty_rate_mode: "bitmap" isn.t one of page-sampling, dirty-bitmap,\s+dirty-ring`),
		}, {
			Config:      acctest.Config(l) + data(`virtual_machine_id = "0b5f3c1e-7d0f-4b43-9a5e-3c8f3d2a1b00"`),
			ExpectError: regexp.MustCompile(`(?s)Unable to read statistics.*No host has it`),
		}},
	})
}
