package libvirt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// everything is all groups that virsh domstats reports on a quiet host.
const everything = StatsState | StatsCPU | StatsBalloon | StatsVCPU | StatsInterface | StatsBlock | StatsPerf |
	StatsDirtyRate

// callsSince counts the calls of a procedure since before.
func callsSince(h *Host, before map[string]int) map[string]int {
	since := map[string]int{}
	for procedure, n := range h.Calls() {
		if n > before[procedure] {
			since[procedure] = n - before[procedure]
		}
	}
	return since
}

// TestStats_ofTheTestDriver proves that the C functions are found, and that a driver with few groups is no error.
func TestStats_ofTheTestDriver(t *testing.T) {
	t.Parallel()
	h := testDriver(t, testDomain("a", uuidOf(1)), testDomain("b", uuidOf(2)))
	must(t, h.DestroyDomain(t.Context(), uuidOf(2), false))
	before := h.Calls()
	all, err := h.Stats(t.Context(), everything)
	must(t, err)
	states := map[string]DomainState{}
	for _, s := range all {
		states[s.Name] = s.State
	}
	if diff := cmp.Diff(map[string]DomainState{"a": Running, "b": Shutoff}, states); diff != "" {
		t.Error(diff)
	}
	want := map[string]int{"virConnectGetAllDomainStats": 1, "virDomainListGetStats": 1}
	if diff := cmp.Diff(want, callsSince(h, before)); diff != "" {
		t.Error(diff)
	}
	one, err := h.Stats(t.Context(), StatsState, uuidOf(1), uuidOf(3))
	if err != nil || len(one) != 1 || one[0].UUID != uuidOf(1) {
		t.Errorf("got %v, %v", one, err)
	}
}

// TestStats_saysWhatVirshSays proves that nothing is lost on the way, and that it takes two calls for all domains.
func TestStats_saysWhatVirshSays(t *testing.T) {
	t.Parallel()
	h, l, machine := labHost(t)
	ctx := t.Context()
	one, name := startGuest(t, h, l, `<interface type='network'><source network='default'/></interface>`)
	two := runningVM(t, h, l, "")
	offName := lab.Name(t)
	l.RemoveDomain(t, offName)
	off, err := h.DefineDomain(ctx, guestXML(l, offName, "", ""))
	must(t, err)

	before := h.Calls()
	all, err := h.Stats(ctx, everything, one, two, off)
	must(t, err)
	want := map[string]int{"virConnectGetAllDomainStats": 1, "virDomainListGetStats": 1}
	if diff := cmp.Diff(want, callsSince(h, before)); diff != "" {
		t.Error(diff)
	}
	if len(all) != 3 {
		t.Fatalf("got %d domains of 3", len(all))
	}
	for _, s := range all {
		if s.UUID == off && s.State != Shutoff || s.UUID != off && s.State != Running {
			t.Errorf("%s is %s (%s)", s.Name, s.State, s.Reason)
		}
	}
	said := l.Virsh(t, machine.Name, "domstats", name,
		"--state", "--cpu-total", "--balloon", "--vcpu", "--interface", "--block", "--perf", "--dirtyrate")
	// Virsh waits for whoever else asks something of the domain in this moment, and we don't.
	eventually(t, "all that virsh knows", func() bool {
		all, err := h.Stats(ctx, everything, one)
		must(t, err)
		known := all[0].Params
		for line := range strings.Lines(said) {
			param, _, isParam := strings.Cut(strings.TrimSpace(line), "=")
			if _, ok := known[param]; isParam && !ok {
				return false
			}
		}
		for _, param := range []string{"cpu.time", "vcpu.0.time", "net.0.rx.bytes", "balloon.current"} {
			if _, ok := known[param]; !ok {
				t.Errorf("got no %s", param)
			}
		}
		return true
	})
}

// TestStats_duringMigration proves that neither end of a migration holds the readers up: asked for everything, libvirt
// would wait 30 seconds for the target's copy. Before, the same guest's dirty rate is measured.
func TestStats_duringMigration(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	uuid := writingGuest(t, l, a)
	measuresDirtyRate(t, a, uuid)
	result := begin(t.Context(), uuid, a, b, Migration{Bandwidth: slowly, PostCopy: true})
	look := func(at side) DomainStats {
		before := at.Calls()
		all, err := at.Stats(t.Context(), everything, uuid)
		must(t, err)
		if asked := callsSince(at.Host, before)["virDomainListGetStats"]; asked > 0 && all[0].Busy {
			t.Errorf("%s was asked %d times what it would have waited with", at.Name(), asked)
		}
		if len(all) != 1 {
			t.Fatalf("%s has %d domains", at.Name(), len(all))
		}
		return all[0]
	}
	awaitJob(t, a, uuid, "memory to be copied", copying)
	if s := look(a); s.Busy || s.State != Running || s.Params.Uint("cpu.time") == nil {
		t.Errorf("the source is %s (%s), busy %t, with %v", s.State, s.Reason, s.Busy, s.Params)
	}
	if s := look(b); !s.Busy || s.State != Paused || s.Reason != "Migration" {
		t.Errorf("the target is %s (%s), busy %t", s.State, s.Reason, s.Busy)
	}
	must(t, a.SetMigrationBandwidth(t.Context(), uuid, 4<<20, true))
	must(t, a.StartPostCopy(t.Context(), uuid))
	eventually(t, "the guest to run on the target", func() bool { return look(b).State == Running })
	if s := look(a); s.State != Paused || s.Reason != "Postcopy" {
		t.Errorf("the source is %s (%s)", s.State, s.Reason)
	}
	must(t, <-result)
	if s := look(b); s.Busy || s.Params.Uint("vcpu.0.time") == nil {
		t.Errorf("after the migration: busy %t with %v", s.Busy, s.Params)
	}
}

// measuresDirtyRate proves that the hypervisor measures what the guest writes, and in no mode that it doesn't have.
func measuresDirtyRate(t *testing.T, a side, uuid string) {
	t.Helper()
	want(t, a.StartDirtyRate(t.Context(), uuid, 1, DirtyRateRing), ErrUnsupported)
	must(t, a.StartDirtyRate(t.Context(), uuid, 1, DirtyRatePageSampling))
	eventually(t, "the measurement", func() bool {
		all, err := a.Stats(t.Context(), StatsDirtyRate, uuid)
		must(t, err)
		status := all[0].Params.Uint("dirtyrate.calc_status")
		return status != nil && *status == 2 && all[0].Params.Uint("dirtyrate.megabytes_per_second") != nil
	})
}
