package exporter

import (
	"log/slog"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Groups of statuses, as KubeVirt names them.
const (
	groupStarting   = "starting"
	groupRunning    = "running"
	groupMigrating  = "migrating"
	groupNonRunning = "non_running"
	groupError      = "error"
)

// entered are when VMs came into each group of statuses.
var entered = map[string]metric{
	groupStarting:   sinceMetric(groupStarting, "starting"),
	groupRunning:    sinceMetric(groupRunning, "running"),
	groupMigrating:  sinceMetric(groupMigrating, "migrating"),
	groupNonRunning: sinceMetric(groupNonRunning, "paused/stopped"),
	groupError:      sinceMetric(groupError, "error"),
}

func sinceMetric(group, words string) metric {
	return counter("kubevirt_vm_"+group+"_status_last_transition_timestamp_seconds",
		"Virtual Machine last transition timestamp to "+words+" status.")
}

// maxStandings bounds the VMs that events alone told of, should there never be a scrape.
const maxStandings = 100_000

// transitions knows since when VMs are as they are. Events say when something happened, also between two scrapes;
// a scrape says what has become of it.
type transitions struct {
	log *slog.Logger

	mu  sync.Mutex
	vms map[string]*vmState // by UUID
}

// vmState is how a VM stands.
type vmState struct {
	// Group is "" until it is known; since is zero as long as it was so before the first scrape.
	group string
	since time.Time
	// Host had it at the last scrape, or has it since it arrived there; stirred is the last event's time.
	host    string
	stirred time.Time
	// told says that an event came which no scrape has seen yet.
	told bool
}

func newTransitions(log *slog.Logger) *transitions {
	return &transitions{log: log, vms: map[string]*vmState{}}
}

// noteEvent takes what a host tells. It never waits.
func (t *transitions) noteEvent(e fleet.Event) {
	switch e.Kind {
	case libvirt.EventLost:
		t.log.Info("events of host", "host", e.Host, "state", e.Detail, "reason", e.Reason)
		return
	case libvirt.EventLifecycle, libvirt.EventJobCompleted:
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.vms[e.UUID]
	if m == nil {
		if len(t.vms) >= maxStandings {
			return
		}
		m = &vmState{}
		t.vms[e.UUID] = m
	}
	m.stirred, m.told = e.At, true
	if e.Kind != libvirt.EventLifecycle {
		return
	}
	arrived := e.Detail == "Resumed" && (e.Reason == libvirt.ReasonMigrated || e.Reason == libvirt.ReasonPostcopy)
	if arrived {
		m.host, m.group, m.since = e.Host, groupRunning, e.At
	}
	// What happens to the other end of a migration isn't the VM's fate.
	if group := groupAfter(e.Event); group != "" && group != m.group && (m.host == "" || m.host == e.Host) {
		m.group, m.since = group, e.At
	}
}

// groupAfter is what a VM has come to by a lifecycle event, if the event alone tells.
func groupAfter(e libvirt.Event) string {
	switch e.Reason {
	case libvirt.ReasonMigrated, libvirt.ReasonPostcopy, libvirt.ReasonPostcopyFailed:
		return ""
	}
	switch e.Detail {
	case "Started", "Resumed":
		return groupRunning
	case "Suspended", "PMSuspended", "Shutdown":
		return groupNonRunning
	case "Stopped":
		if e.Reason == "Crashed" || e.Reason == "Failed" {
			return groupError
		}
		return groupNonRunning
	case "Crashed":
		return groupError
	default:
		return ""
	}
}

// noteScrape takes what a scrape that began then found, and gives the group of the VM and since when it is in it, by
// our clock; zero is unknown. Events that came since are newer than what was found.
func (t *transitions) noteScrape(vm *fleet.VM, found string, began time.Time) (group string, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.vms[vm.UUID]
	if m == nil {
		m = &vmState{}
		t.vms[vm.UUID] = m
	}
	if m.group != "" && m.stirred.After(began) {
		return m.group, m.since
	}
	switch {
	case m.group == found:
	case m.group == "":
		m.group = found
	case m.told:
		m.group, m.since = found, m.stirred
	default:
		m.group, m.since = found, time.Now()
	}
	m.host, m.told = vm.Host, false
	return m.group, m.since
}

// forgetGone forgets the VMs that a scrape which began then didn't find, but for those of hosts that didn't answer.
func (t *transitions) forgetGone(found []observe.Sample, silent map[string]bool, began time.Time) {
	here := make(map[string]bool, len(found))
	for _, m := range found {
		here[m.VM.UUID] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for uuid, m := range t.vms {
		if !here[uuid] && !silent[m.host] && m.stirred.Before(began) {
			delete(t.vms, uuid)
		}
	}
}

// addTransitions adds when a VM came into its group of statuses. The others have 0, as KubeVirt's.
func (f *families) addTransitions(group string, since time.Time, l labels) {
	if since.IsZero() {
		return
	}
	for each, m := range entered {
		value := 0.0
		if each == group {
			value = float64(since.UnixMilli()) / 1000
		}
		f.add(m, &value, l)
	}
}
