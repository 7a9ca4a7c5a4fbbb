package exporter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// TestLab_conditions: what whoever is on call has to know at once. A VM that was started on a second host by hand
// runs twice, and is neither migrating nor evictable; one that was paused says so; hosts tell that they are
// cordoned, and how much memory is committed, in virsh's numbers.
func TestLab_conditions(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	a, b := l.StartHost(t), l.StartHost(t)
	name := opstest.VM(t, l, a, "")
	still := name + "-still"
	l.RemoveDomain(t, still)
	opstest.StartVM(t, l, a, l.NBD(t, still, 16<<20), "noagent")
	l.Virsh(t, a.Name, "suspend", still)
	r := startOn(t, l, nil, a, b)

	vm, other := fmt.Sprintf("name=%q", name), fmt.Sprintf("name=%q", still)
	is := func(all scraped, of, kind, status, reason string) {
		t.Helper()
		all.one(t, "virtfleet_vm_condition", of, fmt.Sprintf("type=%q", kind), fmt.Sprintf("status=%q", status),
			fmt.Sprintf("reason=%q", reason))
	}
	all, _ := r.scrape()
	is(all, vm, "TwoCopies", "False", "OneCopy")
	is(all, vm, "Ready", "True", "GuestRunning")
	is(all, other, "Paused", "True", "PausedByUser")
	is(all, other, "Ready", "False", "PausedByUser")
	if found := all.series("virtfleet_vm_condition", vm, "LiveMigratable"); len(found) > 0 {
		t.Errorf("a scrape doesn't ask for it, and says %v", found)
	}

	// The copy has a UUID of its own, as one that was created while the first one's host was fenced.
	definition, uuid := l.Virsh(t, a.Name, "dumpxml", "--inactive", name),
		strings.TrimSpace(l.Virsh(t, a.Name, "domuuid", name))
	double := uuid[:len(uuid)-4] + "dddd"
	l.Define(t, b.Name, strings.ReplaceAll(definition, uuid, double))
	l.Virsh(t, b.Name, "start", "--paused", name)
	all, _ = r.scrape()
	for _, h := range []*lab.Host{a, b} {
		all.one(t, "virtfleet_vm_condition", vm, fmt.Sprintf("node=%q", h.Name), `type="TwoCopies"`, `status="True"`,
			`reason="SameNameAndDisk"`)
	}
	observed, err := openFleet(t, a, b).Observe(t.Context(), observe.Question{UUID: uuid})
	if err != nil {
		t.Fatal(err)
	}
	if c := status.ConditionOf(observed.Facts, status.TwoCopies); c.Status != status.True ||
		!strings.Contains(c.Message, double) || !strings.Contains(c.Message, b.Name) {
		t.Errorf("%+v", c)
	}
	l.Virsh(t, b.Name, "destroy", name)
	l.Virsh(t, b.Name, "undefine", name)

	l.Define(t, b.Name, definition)
	l.Virsh(t, b.Name, "start", name)
	f := openFleet(t, a, b)
	if err := f.Cordon(t.Context(), b.Name, "1", "a test"); err != nil {
		t.Fatal(err)
	}
	all, _ = startOn(t, l, nil, a, b).scrape() // The host's record is read once a minute.
	is(all, vm, "TwoCopies", "True", "RunsOnSeveralHosts")
	all.one(t, "kubevirt_vm_info", vm, `status="unknown"`, `status_group="error"`)
	all.one(t, "kubevirt_vmi_info", vm, `evictable="false"`)
	if got := all.one(t, "kubevirt_vmi_non_evictable", vm); got != 1 {
		t.Errorf("a drain would stop at it, and non-evictable is %v", got)
	}
	for _, h := range []*lab.Host{a, b} {
		all.one(t, "kubevirt_vmi_cpu_usage_seconds_total", vm, fmt.Sprintf("node=%q", h.Name))
	}
	if found := all.series("kubevirt_vm_info", vm, `"migrating"`); len(found) > 0 {
		t.Errorf("nothing moves it: %v", found)
	}

	for h, cordoned := range map[*lab.Host]float64{a: 0, b: 1} {
		node := fmt.Sprintf("node=%q", h.Name)
		if got := all.one(t, "virtfleet_host_cordoned", node); got != cordoned {
			t.Errorf("%s is cordoned: %v", h.Name, got)
		}
		var kib float64
		for line := range strings.Lines(l.Virsh(t, h.Name, "nodeinfo")) {
			_, _ = fmt.Sscanf(line, "Memory size: %f KiB", &kib)
		}
		if got := all.one(t, "virtfleet_host_memory_bytes", node); got != kib*1024 {
			t.Errorf("%s has %v bytes of memory, virsh says %v KiB", h.Name, got, kib)
		}
		all.one(t, "virtfleet_host_fenced", node)
		if got := all.one(t, "virtfleet_host_memory_committed_bytes", node); got < 128<<20 {
			t.Errorf("%v bytes are committed on %s", got, h.Name)
		}
	}
}
