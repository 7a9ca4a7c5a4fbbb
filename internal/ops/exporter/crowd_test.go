package exporter

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// resting is a VM that runs and does nothing: all that its firmware says is to halt. It costs its host the memory
// of a process, and no time.
func resting(t testing.TB, h *lab.Host, name string) string {
	t.Helper()
	const path = "/var/lib/libvirt/boot/halt.rom"
	rom := make([]byte, 64<<10)
	// Where a processor begins, 16 bytes before the end: cli; hlt; jmp back to the hlt.
	copy(rom[len(rom)-16:], []byte{0xfa, 0xf4, 0xeb, 0xfd})
	if err := os.WriteFile(h.Path(path), rom, 0o644); err != nil { //nolint:gosec // QEMU reads it as another user.
		t.Fatal(err)
	}
	return fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">2</memory>`+
		`<os><type arch="x86_64" machine="pc">hvm</type><loader type="rom">%s</loader></os>`+
		`<devices><controller type="usb" model="none"/></devices></domain>`, name, path)
}

// startAll starts VMs, a few at a time.
func startAll(t testing.TB, l *lab.Lab, h *lab.Host, names []string) {
	t.Helper()
	var starts errgroup.Group
	starts.SetLimit(4)
	for _, name := range names {
		starts.Go(func() error {
			_, err := l.TryVirsh(t, h.Name, "start", name)
			return err
		})
	}
	if err := starts.Wait(); err != nil {
		t.Fatal(err)
	}
}

// crowd defines VMs on a host that is 50 ms away, and gives an exporter of it.
func crowd(t testing.TB, l *lab.Lab, h *lab.Host, n int) (names []string, r *running) {
	t.Helper()
	proxy := l.DelayProxy(t, h.Name, 50*time.Millisecond)
	var xmls []string
	base := lab.Name(t)
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", base, i))
		xmls = append(xmls, resting(t, h, names[i]))
	}
	l.Define(t, h.Name, xmls...)
	return names, start(t, opstest.ConfigOf(l, proxy.KnownHostsFile, map[string]string{h.Name: proxy.URI()}))
}

// costOf scrapes until the last scrape found that many VMs of which so many run, and nothing new about them: what
// it cost then is what every further one costs: two calls, one after another. A new VM's definition is read once.
func costOf(
	t testing.TB, r *running, h *lab.Host, n, running int,
) (cost map[string]float64, last scraped, took time.Duration) {
	t.Helper()
	before, _ := r.scrape()
	for range 5 {
		began := time.Now()
		last, _ = r.scrape()
		took = time.Since(began)
		cost = callsOf(last, h.Name)
		for procedure, n := range callsOf(before, h.Name) {
			cost[procedure] -= n
		}
		maps.DeleteFunc(cost, func(_ string, n float64) bool { return n == 0 })
		if cost["virConnectListAllDomains"] == 0 {
			break // Else the definitions were read, as they are once a minute.
		}
		before = last
	}
	want := map[string]float64{"virConnectGetAllDomainStats": 1, "virDomainListGetStats": 1}
	if diff := cmp.Diff(want, cost); diff != "" {
		t.Errorf("with %d running VMs: %s", running, diff)
	}
	if all := len(last.series("kubevirt_vm_info")); all != n {
		t.Errorf("%d VMs, want %d", all, n)
	}
	if found := len(last.series("kubevirt_vmi_cpu_usage_seconds_total")); found != running {
		t.Errorf("%d VMs run, want %d", found, running)
	}
	return cost, last, took
}

// TestLab_callsDontGrowWithTheVMs proves that a scrape of a host 50 ms away takes two calls, one after another and
// so two round trips, however many VMs there are, and however many of them run.
func TestLab_callsDontGrowWithTheVMs(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	names, r := crowd(t, l, h, 200)
	booted := opstest.VM(t, l, h, "")
	for _, running := range []int{0, 12} {
		startAll(t, l, h, names[:running])
		_, last, took := costOf(t, r, h, 201, 1+running)
		t.Logf("scrape of 201 VMs of which %d run, round trip 50 ms: %v", 1+running, took.Round(time.Millisecond))
		last.one(t, "kubevirt_vmi_cpu_usage_seconds_total", `name="`+booted+`"`)
		if n := len(last.series("kubevirt_vmi_vcpu_seconds_total")); n != 2+running {
			t.Errorf("%d virtual CPUs, want %d", n, 2+running)
		}
	}
}

// BenchmarkScrape scrapes a host 50 ms away on which 200 VMs run: they take 8 GB of memory. It reports the calls,
// and how many round trips longer a scrape takes than virsh on the host itself takes for the same statistics, in turns
// with it: libvirt asks each running VM's QEMU, one after another, whoever wants to know.
func BenchmarkScrape(b *testing.B) {
	const count, roundTrip = 200, 50 * time.Millisecond
	l := lab.Open(b)
	h := l.StartHost(b)
	names, r := crowd(b, l, h, count)
	startAll(b, l, h, names)
	began := time.Now()
	r.scrape()
	first := time.Since(began)
	cost, _, _ := costOf(b, r, h, count, count)
	calls := 0.0
	for _, n := range cost {
		calls += n
	}
	var scrapes, virsh time.Duration
	for b.Loop() {
		began = time.Now()
		r.scrape()
		scrapes += time.Since(began)
		began = time.Now()
		l.Virsh(b, h.Name, "domstats", "--nowait", "--state", "--cpu-total", "--balloon", "--vcpu", "--interface",
			"--block", "--perf")
		virsh += time.Since(began)
	}
	b.ReportMetric(float64(first.Milliseconds()), "ms/first")
	b.ReportMetric(calls, "calls/scrape")
	b.ReportMetric(float64(scrapes.Milliseconds())/float64(b.N), "ms/scrape")
	b.ReportMetric(float64(virsh.Milliseconds())/float64(b.N), "ms/virsh")
	b.ReportMetric(float64(scrapes-virsh)/float64(b.N)/float64(roundTrip), "more-round-trips")
}
