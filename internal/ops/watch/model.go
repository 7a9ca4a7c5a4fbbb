package watch

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/terminal"
)

// model is what is known of the fleet, built from the hosts' successive replies.
type model struct {
	vms   map[string]*vmState // by UUID
	hosts map[string]*hostState
	// introduced says that the first lines, which describe the fleet, were shown.
	introduced bool
}

func newModel(hosts []string) *model {
	m := &model{vms: map[string]*vmState{}, hosts: map[string]*hostState{}}
	for _, h := range hosts {
		m.hosts[h] = &hostState{}
	}
	return m
}

// hostState is whether a host answers.
type hostState struct {
	// answered says that the host has answered once, known that its VMs were read then, and silent that it doesn't
	// answer now.
	answered, known, silent bool
	// since is when this last changed; zero if it was so before the first poll.
	since time.Time
}

// vmState is the last known state of a VM.
type vmState struct {
	name, host, hostUUID string
	status, reason       string
	// since is when the status last changed; zero if it was so before the first poll.
	since      time.Time
	conditions []status.Condition
	migration  *migration.State // nil for none
	// advanced is the age of the migration when it was last seen to have sent something.
	advanced time.Duration
	// gone says that the VM's present host is unknown.
	gone bool
	// start is the number of the guest's start on its host, 0 if unknown. stale says that the VM is or was off since that
	// start, as its definition, which has the number, may have been read before.
	start int
	stale bool
	// left are these numbers on the hosts that the VM has left: when it comes back, that definition may still be known.
	left map[string]int
	// restarted says that the guest was started again since the last reply, which its status may not show.
	restarted bool
}

// change is one line about a change.
type change struct {
	at               time.Time
	host, name, what string
}

// unspoken are the conditions that other lines report: the lines about the status and about the host.
var unspoken = map[string]bool{status.Connected: true, status.Started: true}

// notePoll records whether a host answered, and returns a line if that changed.
func (m *model) notePoll(p fleet.HostPoll) []change {
	h := m.hosts[p.Host]
	h.answered = h.answered || p.Err == nil
	tell := func(what string) []change {
		what += afterText(h.since, p.At)
		h.silent, h.since = p.Err != nil, p.At
		return []change{{p.At, p.Host, terminal.None, what}}
	}
	switch {
	case p.Err != nil && !h.silent:
		return tell("does not answer: " + p.Err.Error())
	case p.Err == nil && h.silent:
		return tell("answers again")
	}
	return nil
}

// applyListing updates the VMs from the merged replies of all hosts, and returns what has changed. jobs are the jobs
// that are known to run, by UUID.
func (m *model) applyListing(now time.Time, found []fleet.Listed, jobs map[string]*libvirt.Job) []change {
	var changes []change
	tell := func(old, next *vmState, what string) {
		changes = append(changes, change{now, next.host, next.name, what + afterText(old.since, now)})
	}
	seen := make(map[string]bool, len(found))
	for _, l := range found {
		seen[l.UUID] = true
		old := m.vms[l.UUID]
		if l.Inconsistent {
			continue // the last known state counts until the replies agree
		}
		if errors.Is(l.Err, fleet.ErrUnreachable) {
			if old != nil {
				old.gone = true
			}
			continue
		}
		job := jobs[l.UUID]
		if old != nil && old.hasArrivedAs(l.VM) {
			job = nil // The source was asked before, and isn't a part of the VM any more.
		}
		next := newVMState(l, job)
		next.keepPassing(old)
		next.compareStart(old)
		m.vms[l.UUID] = next
		switch {
		case old == nil && m.isKnown(next.host):
			next.since = now
			changes = append(changes, change{now, next.host, next.name, "new: " + next.statusText()})
		case old == nil:
		case old.hasChange(next):
			if next.since = now; old.isMigrating() && next.isMigrating() {
				next.since = old.since
			}
			tell(old, next, old.transitionText(next))
		default:
			next.since = old.since
		}
	}
	for uuid, old := range m.vms {
		switch {
		case seen[uuid]:
		case m.anySilent():
			old.gone = true
		default:
			delete(m.vms, uuid)
			tell(old, old, "undefined: no host has it any more, it was "+old.statusText())
		}
	}
	for _, h := range m.hosts {
		h.known = h.known || h.answered
	}
	return changes
}

// isKnown reports whether the VMs of a host were read before, so that a VM that wasn't there is new.
func (m *model) isKnown(host string) bool { return m.hosts[host] != nil && m.hosts[host].known }

// allHostsPolled reports whether each host has answered or failed to.
func (m *model) allHostsPolled() bool {
	for _, h := range m.hosts {
		if !h.silent && !h.answered {
			return false
		}
	}
	return true
}

func (m *model) anySilent() bool {
	for _, h := range m.hosts {
		if h.silent || !h.answered {
			return true
		}
	}
	return false
}

// lastKnown returns where each VM was last seen, by UUID.
func (m *model) lastKnown() map[string]fleet.LastKnown {
	last := make(map[string]fleet.LastKnown, len(m.vms))
	for uuid, old := range m.vms {
		last[uuid] = fleet.LastKnown{Host: old.host, HostUUID: old.hostUUID}
	}
	return last
}

// moves returns the VMs that are migrating to a known host, by their UUIDs.
func (m *model) moves() map[string]*vmState {
	all := map[string]*vmState{}
	for uuid, v := range m.vms {
		if v.isMigrating() && v.migration.TargetHost != "" {
			all[uuid] = v
		}
	}
	return all
}

func newVMState(l fleet.Listed, job *libvirt.Job) *vmState {
	if l.VM == nil {
		return &vmState{name: l.Name, host: terminal.None, status: status.StatusUnknown, reason: l.Err.Error()}
	}
	facts, moving := l.Facts(), l.VM.Migration(job)
	if moving == nil && awaitsMemory(l.VM) {
		moving = &migration.State{TargetHost: l.VM.Host, Mode: migration.PostCopy}
	}
	facts.Migrating = facts.Migrating || moving != nil
	next := &vmState{
		start: l.VM.StartNumber(), stale: !l.VM.Active,
		name: l.Name, host: l.VM.Host, hostUUID: l.VM.HostUUID, status: status.PrintableStatus(facts),
		reason: l.VM.StatusReason(), conditions: status.Conditions(facts), migration: moving,
	}
	if moving != nil {
		next.advanced = moving.Statistics.Elapsed
	}
	return next
}

// awaitsMemory reports whether a guest runs on the target of its migration, and the rest of its memory is still at the
// source, which may not answer.
func awaitsMemory(vm *fleet.VM) bool {
	return vm.State == libvirt.Running && vm.Reason == libvirt.ReasonPostcopy
}

// statusText returns the VM's status with its reason or its migration.
func (m *vmState) statusText() string {
	switch {
	case m.isMigrating():
		return m.status + " (" + m.directionText() + ")"
	case m.reason == "":
		return m.status
	default:
		return m.status + " (" + m.reason + ")"
	}
}

// hasArrivedAs reports whether the VM is on the target of its migration and no longer at the source. The last job that
// is known is still the source's then.
func (m *vmState) hasArrivedAs(vm *fleet.VM) bool {
	return vm != nil && m.isMigrating() && !vm.Migrating && vm.Host == m.migration.TargetHost && !awaitsMemory(vm)
}

func (m *vmState) isMigrating() bool { return m.status == status.StatusMigrating && m.migration != nil }

// directionText returns the source, the target and the mode of the VM's migration.
func (m *vmState) directionText() string {
	return hostsOf(m.migration) + ", " + string(m.migration.Mode)
}

// elsewhere stands for a host that isn't one of the fleet's.
const elsewhere = "(elsewhere)"

func hostsOf(s *migration.State) string {
	target := s.TargetHost
	if target == "" {
		target = elsewhere
	}
	return s.SourceHost + " -> " + target
}

// keepPassing keeps the old conditions while a VM starts, stops or migrates, because they change back and forth then.
// Once the guest runs on the target, where the mode of the migration isn't known, it also keeps the old mode.
func (m *vmState) keepPassing(old *vmState) {
	if old == nil {
		return
	}
	if status.IsTransitional(m.status) {
		m.conditions = old.conditions
	}
	if !old.isMigrating() || !m.isMigrating() {
		return
	}
	if m.migration.SourceHost == "" && m.migration.TargetHost == old.migration.TargetHost {
		m.migration, m.advanced = old.migration, old.advanced
		return
	}
	if m.migration.Statistics.Data.Processed == old.migration.Statistics.Data.Processed {
		m.advanced = old.advanced
	}
	if m.host == m.migration.TargetHost && m.migration.Mode == migration.PreCopy {
		m.migration.Mode = old.migration.Mode
	}
	// An aborted migration disappears on its target first, that of a transient VM on its source. The host that is left
	// then looks like a source.
	if m.migration.TargetHost == "" {
		if m.migration.SourceHost == old.migration.TargetHost {
			m.migration.SourceHost = old.migration.SourceHost
		}
		m.migration.TargetHost = old.migration.TargetHost
	}
}

// compareStart notes whether the guest was started again since the old state, on the same host. If libvirt has given
// the new start the same number, because the host itself was started again, this isn't known.
func (m *vmState) compareStart(old *vmState) {
	if old == nil {
		return
	}
	m.left = old.left
	if m.host == terminal.None || old.host == terminal.None {
		return // It is unknown where it is, or was.
	}
	if m.host != old.host {
		m.left = maps.Clone(old.left)
		if m.left == nil {
			m.left = map[string]int{}
		}
		m.stale = m.stale || m.start == m.left[m.host]
		m.left[old.host] = old.start
		return
	}
	if m.stale {
		return
	}
	m.restarted = old.start != 0 && m.start != 0 && m.start != old.start && !old.stale
	m.stale = m.start == old.start && old.stale
}

// hasChange reports whether there is a change to show. The change of host of a migrating VM isn't one.
func (m *vmState) hasChange(next *vmState) bool {
	return m.statusText() != next.statusText() || m.host != next.host && !next.isMigrating() || next.restarted ||
		len(m.changedConditions(next)) > 0
}

// transitionText describes what has changed: the status and conditions.
func (m *vmState) transitionText(next *vmState) string {
	from, to := m.statusText(), next.statusText()
	switch {
	case next.isMigrating():
	case m.isMigrating() && next.host == m.migration.SourceHost:
		to += ", it was not moved"
	case m.isMigrating():
		to += " on " + next.host
	case m.host != next.host:
		from, to = from+" on "+m.host, to+" on "+next.host
	}
	var parts []string
	if from != to {
		parts = append(parts, from+" -> "+to)
	}
	if next.restarted {
		parts = append(parts, "the guest was started again")
	}
	return strings.Join(append(parts, m.changedConditions(next)...), "; ")
}

// changedConditions returns the conditions that changed between True and False. A change from or to Unknown doesn't
// count, except that the host of a second copy answers again.
func (m *vmState) changedConditions(next *vmState) []string {
	old := make(map[string]status.ConditionStatus, len(m.conditions))
	for _, c := range m.conditions {
		old[c.Type] = c.Status
	}
	var all []string
	for _, c := range next.conditions {
		was := old[c.Type]
		known := was != "" && was != status.Unknown || c.Type == status.TwoCopies && c.Status == status.True
		if unspoken[c.Type] || was == c.Status || !known || c.Status == status.Unknown {
			continue
		}
		all = append(all, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
	}
	return all
}

// afterText returns how long the previous state lasted, "" if its start is unknown.
func afterText(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", after " + durationText(now.Sub(since))
}
