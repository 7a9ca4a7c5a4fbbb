package watch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/terminal"
)

// model is what is known of the fleet, made of what its hosts said one after another.
type model struct {
	machines map[string]*machine // by UUID
	hosts    map[string]*standing
	// introduced says that what the fleet is was said.
	introduced bool
}

func newModel(hosts []string) *model {
	m := &model{machines: map[string]*machine{}, hosts: map[string]*standing{}}
	for _, h := range hosts {
		m.hosts[h] = &standing{}
	}
	return m
}

// standing is how a host stands.
type standing struct {
	// answered says that it has once, known that its machines were taken in then, silent that it doesn't now.
	answered, known, silent bool
	// since is when it became so; zero when it was so before anybody asked.
	since time.Time
}

// machine is how a machine stood when it was seen last.
type machine struct {
	name, host, hostUUID string
	status, reason       string
	// since is when it became so; zero when it was so before anybody looked.
	since      time.Time
	conditions []status.Condition
	migration  *migration.State // nil for none
	// gone says that it isn't known where it is now.
	gone bool
}

// change is something that became different.
type change struct {
	at               time.Time
	host, name, what string
}

// unspoken are the conditions that are told otherwise: by the status, or by the host.
var unspoken = map[string]bool{status.Connected: true, status.Started: true}

// glanced notes whether a host answered.
func (m *model) glanced(g fleet.Glance) []change {
	h := m.hosts[g.Host]
	h.answered = h.answered || g.Err == nil
	tell := func(what string) []change {
		what += after(h.since, g.At)
		h.silent, h.since = g.Err != nil, g.At
		return []change{{g.At, g.Host, terminal.Nobody, what}}
	}
	switch {
	case g.Err != nil && !h.silent:
		return tell("does not answer: " + g.Err.Error())
	case g.Err == nil && h.silent:
		return tell("answers again")
	}
	return nil
}

// update takes what all hosts together say of the machines now, and gives what has changed. jobs are those that are
// known to run, by UUID.
func (m *model) update(now time.Time, found []fleet.Listed, jobs map[string]*libvirt.Job) []change {
	var changes []change
	tell := func(old, next *machine, what string) {
		changes = append(changes, change{now, next.host, next.name, what + after(old.since, now)})
	}
	seen := make(map[string]bool, len(found))
	for _, l := range found {
		seen[l.UUID] = true
		old := m.machines[l.UUID]
		if l.Skewed {
			continue // It stands as it stood until it is known better.
		}
		if errors.Is(l.Err, fleet.ErrUnreachable) {
			if old != nil {
				old.gone = true
			}
			continue
		}
		next := newMachine(l, jobs[l.UUID])
		next.continues(old)
		m.machines[l.UUID] = next
		switch {
		case old == nil && m.tookIn(next.host):
			next.since = now
			changes = append(changes, change{now, next.host, next.name, "new: " + next.stands()})
		case old == nil:
		case old.differs(next):
			if next.since = now; old.migrates() && next.migrates() {
				next.since = old.since
			}
			tell(old, next, old.became(next))
		default:
			next.since = old.since
		}
	}
	for uuid, old := range m.machines {
		switch {
		case seen[uuid]:
		case m.anySilent():
			old.gone = true
		default:
			delete(m.machines, uuid)
			tell(old, old, "undefined: no host has it any more, it was "+old.stands())
		}
	}
	for _, h := range m.hosts {
		h.known = h.known || h.answered
	}
	return changes
}

// tookIn says whether the machines of a host were known before: then another one is new.
func (m *model) tookIn(host string) bool { return m.hosts[host] != nil && m.hosts[host].known }

// complete says whether all hosts have answered, or are known not to.
func (m *model) complete() bool {
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

// last says where machines were seen.
func (m *model) last() map[string]fleet.LastKnown {
	last := make(map[string]fleet.LastKnown, len(m.machines))
	for uuid, old := range m.machines {
		last[uuid] = fleet.LastKnown{Host: old.host, HostUUID: old.hostUUID}
	}
	return last
}

// sources are the hosts that machines are being moved from, by UUID.
func (m *model) sources() map[string]string {
	sources := map[string]string{}
	for uuid, v := range m.machines {
		if v.migrates() && v.migration.TargetHost != "" {
			sources[uuid] = v.migration.SourceHost
		}
	}
	return sources
}

func newMachine(l fleet.Listed, job *libvirt.Job) *machine {
	if l.VM == nil {
		return &machine{name: l.Name, host: terminal.Nobody, status: status.StatusUnknown, reason: l.Err.Error()}
	}
	facts, moving := l.Facts(), l.VM.Migration(job)
	facts.Migrating = facts.Migrating || moving != nil
	return &machine{
		name: l.Name, host: l.VM.Host, hostUUID: l.VM.HostUUID, status: status.PrintedStatus(facts),
		reason: l.VM.StatusReason(), conditions: status.Conditions(facts), migration: moving,
	}
}

// stands says how the machine stands.
func (m *machine) stands() string {
	switch {
	case m.migrates():
		return m.status + " (" + m.way() + ")"
	case m.reason == "":
		return m.status
	default:
		return m.status + " (" + m.reason + ")"
	}
}

func (m *machine) migrates() bool { return m.status == status.StatusMigrating && m.migration != nil }

// way says between which hosts the machine is, and how it is moved.
func (m *machine) way() string { return way(m.migration) + ", " + string(m.migration.Mode) }

// elsewhere is a host that isn't one of the fleet's.
const elsewhere = "(elsewhere)"

func way(s *migration.State) string {
	target := s.TargetHost
	if target == "" {
		target = elsewhere
	}
	return s.SourceHost + " -> " + target
}

// continues keeps what is no change while a machine starts, stops or is moved: then conditions turn and turn back, and
// once the guest runs on the target, how its memory came there isn't to be seen any more.
func (m *machine) continues(old *machine) {
	if old == nil {
		return
	}
	if status.Passing(m.status) {
		m.conditions = old.conditions
	}
	if !old.migrates() || !m.migrates() {
		return
	}
	if m.host == m.migration.TargetHost && m.migration.Mode == migration.PreCopy {
		m.migration.Mode = old.migration.Mode
	}
	// One that is aborted leaves its target first.
	if m.migration.TargetHost == "" {
		m.migration.TargetHost = old.migration.TargetHost
	}
}

// differs says whether there is something to tell. A machine that migrates changes its host in between, unseen.
func (m *machine) differs(next *machine) bool {
	return m.stands() != next.stands() || m.host != next.host && !next.migrates() || len(m.turned(next)) > 0
}

// became says what has changed: the status, and the conditions that turned.
func (m *machine) became(next *machine) string {
	from, to := m.stands(), next.stands()
	switch {
	case next.migrates():
	case m.migrates() && next.host == m.migration.SourceHost:
		to += ", it was not moved"
	case m.migrates():
		to += " on " + next.host
	case m.host != next.host:
		from, to = from+" on "+m.host, to+" on "+next.host
	}
	var parts []string
	if from != to {
		parts = append(parts, from+" -> "+to)
	}
	return strings.Join(append(parts, m.turned(next)...), "; ")
}

// turned are the conditions whose status became the opposite. What isn't known is no change.
func (m *machine) turned(next *machine) []string {
	old := make(map[string]status.Truth, len(m.conditions))
	for _, c := range m.conditions {
		old[c.Type] = c.Status
	}
	var all []string
	for _, c := range next.conditions {
		was := old[c.Type]
		if unspoken[c.Type] || was == c.Status || was == "" || was == status.Unknown || c.Status == status.Unknown {
			continue
		}
		all = append(all, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
	}
	return all
}

// after says how long something lasted, if its begin is known.
func after(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", after " + lasted(now.Sub(since))
}
