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

// entered are the metrics of when a VM entered each group of statuses.
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

// maxStandings limits how many VMs are kept of which only events are known, in case no scrape ever happens.
const maxStandings = 100_000

// transitions knows since when VMs have had their status. Events say when something happened, also between two scrapes;
// a scrape reads the resulting status.
type transitions struct {
	log *slog.Logger

	mu  sync.Mutex
	vms map[string]*vmState // by UUID
}

// vmState is the last known status of a VM.
type vmState struct {
	// group is "" until it is known; since is zero if the VM was in the group before the first scrape.
	group string
	since time.Time
	// host is the VM's host at the last scrape, or the host where it has arrived since; stirred is the time of the last
	// event.
	host    string
	stirred time.Time
	// told says that an event came after the last scrape.
	told bool
}

func newTransitions(log *slog.Logger) *transitions {
	return &transitions{log: log, vms: map[string]*vmState{}}
}

// noteEvent records an event of a host. It never blocks.
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
	// An event at the other end of a migration isn't a change of the VM.
	if group := groupAfter(e.Event); group != "" && group != m.group && (m.host == "" || m.host == e.Host) {
		m.group, m.since = group, e.At
	}
}

// groupAfter returns the group of a VM after a lifecycle event, or "" if the event alone doesn't determine it.
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

// noteScrape records what a scrape that began at that time found. It returns the VM's group and since when the VM has
// been in it, by this computer's clock; zero if unknown. Events since began are newer than what was found.
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

// forgetGone forgets the VMs that a scrape did not find. It keeps the VMs of hosts that didn't answer, and those with
// an event since the scrape began.
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

// addTransitions adds when a VM entered its group of statuses. The other groups have 0, as in KubeVirt.
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
