package exporter

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// TestTransitions has what events and scrapes tell, one after another, each a second later than the last.
func TestTransitions(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		// Each is a group that a scrape finds, with a host; or an event, as "host Detail Reason".
		steps string
		group string
		// Since is which step it is since: 0 is unknown, -1 the time of the scrape.
		since int
	}{
		"nothing happened":       {"running@a; running@a", groupRunning, 0},
		"paused between scrapes": {"running@a; a Suspended Paused; non_running@a", groupNonRunning, 2},
		"paused and resumed":     {"running@a; a Suspended Paused; a Resumed Unpaused; running@a", groupRunning, 3},
		"no event came":          {"running@a; non_running@a", groupNonRunning, -1},
		"it stays":               {"running@a; a Stopped Destroyed; non_running@a; non_running@a", groupNonRunning, 2},
		"started":                {"a Started Booted; running@a", groupRunning, 1},
		"crashed":                {"running@a; a Stopped Crashed; error@a", groupError, 2},
		"moved between scrapes": {
			"running@a; b Started Migrated; b Resumed Migrated; a Stopped Migrated; running@b", groupRunning, 3,
		},
		"moving":                      {"running@a; b Started Migrated; migrating@a", groupMigrating, 2},
		"came back from a migration":  {"running@a; migrating@a; b Stopped Failed; running@a", groupRunning, 3},
		"the other end isn't its own": {"running@a; b Stopped Failed; running@a", groupRunning, 0},
		"at home where it arrived": {
			"running@a; b Resumed Migrated; b Suspended Paused; non_running@b", groupNonRunning, 3,
		},
	} {
		tr := newTransitions(slog.New(slog.DiscardHandler))
		var group string
		var since time.Time
		for i, step := range strings.Split(test.steps, "; ") {
			at := start.Add(time.Duration(i+1) * time.Second)
			if found, host, scraped := strings.Cut(step, "@"); scraped {
				group, since = tr.noteScrape(&fleet.VM{UUID: "u", Host: host}, found, at)
				continue
			}
			parts := strings.Fields(step)
			tr.noteEvent(fleet.Event{At: at, Host: parts[0], Event: libvirt.Event{
				Kind: libvirt.EventLifecycle, UUID: "u", Detail: parts[1], Reason: parts[2],
			}})
		}
		got := 0
		switch {
		case since.IsZero():
		case since.Sub(start) > time.Minute:
			got = -1
		default:
			got = int(since.Sub(start) / time.Second)
		}
		if group != test.group || got != test.since {
			t.Errorf("%s: %s since step %d, want %s since %d", name, group, got, test.group, test.since)
		}
	}
}

// TestTransitions_newerThanTheScrape proves that an event counts more than what was read before it.
func TestTransitions_newerThanTheScrape(t *testing.T) {
	t.Parallel()
	tr := newTransitions(slog.New(slog.DiscardHandler))
	vm := &fleet.VM{UUID: "u", Host: "a"}
	began := time.Now()
	tr.noteScrape(vm, groupRunning, began)
	at := began.Add(time.Second)
	tr.noteEvent(fleet.Event{At: at, Host: "a", Event: libvirt.Event{
		Kind: libvirt.EventLifecycle, UUID: "u", Detail: "Suspended", Reason: "Paused",
	}})
	if group, since := tr.noteScrape(vm, groupRunning, began); group != groupNonRunning || since != at {
		t.Errorf("%s since %v", group, since)
	}
}

// TestTransitions_forgets proves that only those are kept that are there, or may be.
func TestTransitions_forgets(t *testing.T) {
	t.Parallel()
	tr := newTransitions(slog.New(slog.DiscardHandler))
	began := time.Now()
	for uuid, host := range map[string]string{"here": "a", "gone": "a", "silent": "b"} {
		tr.noteScrape(&fleet.VM{UUID: uuid, Host: host}, groupRunning, began)
	}
	tr.noteEvent(fleet.Event{At: began.Add(time.Second), Host: "a", Event: libvirt.Event{
		Kind: libvirt.EventLifecycle, UUID: "new", Detail: "Started", Reason: "Booted",
	}})
	tr.forgetGone([]observe.Sample{{VM: &fleet.VM{UUID: "here"}}}, map[string]bool{"b": true}, began)
	if len(tr.vms) != 3 || tr.vms["gone"] != nil {
		t.Errorf("kept %v", tr.vms)
	}
}

// TestLab_transitions suspends and resumes a VM between two scrapes, of which only events tell. In the end it crashes.
func TestLab_transitions(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	name := opstest.VM(t, l, h, "")
	vm := `name="` + name + `"`
	r := startOn(t, l, nil, h)
	r.log.Line(t, "events of host", h.Name, libvirt.LostUntilNow)
	of := func(group string) string { return "kubevirt_vm_" + group + "_status_last_transition_timestamp_seconds" }
	stands := func(group string) (since float64) {
		t.Helper()
		deadline, tick := time.After(5*time.Minute), time.NewTicker(100*time.Millisecond)
		defer tick.Stop()
		for {
			all, _ := r.scrape()
			if found := all.series(of(group), vm); len(found) == 1 && all[found[0]] > 0 {
				for each := range entered {
					if each != group && all.one(t, of(each), vm) != 0 {
						t.Errorf("it came to %s and to %s", group, each)
					}
				}
				return all[found[0]]
			}
			select {
			case <-deadline:
				t.Fatalf("there was no event that it came to %s: %v", group, all.series(of(group)))
			case <-tick.C:
			}
		}
	}
	now := func() float64 { return float64(time.Now().UnixMilli()) / 1000 }

	all, _ := r.scrape()
	if got := all.series(of(groupRunning)); got != nil {
		t.Errorf("it is unknown since when it runs, and there is %v", got)
	}
	began := now()
	l.Virsh(t, h.Name, "suspend", name)
	l.Virsh(t, h.Name, "resume", name)
	resumed := stands(groupRunning)
	if resumed < began || resumed > now() {
		t.Errorf("resumed at %f, between %f and %f", resumed, began, now())
	}
	if again := stands(groupRunning); again < resumed {
		t.Errorf("resumed at %f, then at %f", resumed, again)
	}
	began = now()
	l.Virsh(t, h.Name, "suspend", name)
	if paused := stands(groupNonRunning); paused < began || paused > now() {
		t.Errorf("paused at %f, between %f and %f", paused, began, now())
	}
	began = now()
	l.Run(t, h.Name, "sh", "-c", "kill -9 $(cat /run/libvirt/qemu/"+name+".pid)")
	if crashed := stands(groupError); crashed < began || crashed > now() {
		t.Errorf("crashed at %f, between %f and %f", crashed, began, now())
	}
	all, _ = r.scrape()
	all.one(t, "kubevirt_vmi_info", vm, `phase="failed"`)
	all.one(t, "kubevirt_vm_info", vm, `status="failed"`, `status_group="error"`)
}
