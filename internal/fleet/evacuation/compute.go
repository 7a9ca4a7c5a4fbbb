package evacuation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// Compute returns the plan: its steps in the order in which VMs leave. A VM that can't leave has a step as well, with
// MethodBlocked and the reasons.
func Compute(in Input) []Step {
	p := planner{Input: in}
	for _, m := range in.VMs {
		p.decideVM(m)
	}
	slices.SortFunc(p.moves, func(a, b *decision) int {
		return cmp.Or(-cmp.Compare(a.rule.Priority, b.rule.Priority), cmp.Compare(a.step.Name, b.step.Name),
			cmp.Compare(a.step.UUID, b.step.UUID))
	})
	p.assignTargets()
	steps := make([]Step, len(p.moves))
	for i, d := range p.moves {
		steps[i] = d.step
	}
	return steps
}

// BlockedSteps returns the steps that block draining the host.
func BlockedSteps(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Method != MethodBlocked })
}

type planner struct {
	Input
	moves []*decision
}

// decision is what was decided about one VM.
type decision struct {
	vm   VM
	rule Rule
	step Step
	// blockersByHost are what blocks the move to each host, with the method that was decided.
	blockersByHost map[string][]migration.Blocker
	// use is what the VM requests from its target.
	use domain.HostUse
	// targets are the hosts that can accept the VM, ignoring room.
	targets []string
	// bytes are how much is copied to each target.
	bytes map[string]uint64
	// space is how much room the VM's disks require on each target.
	space map[string]Space
}

func (p *planner) decideVM(m VM) {
	r := SelectRule(m, p.Host, p.Policies, p.Default)
	d := &decision{vm: m, use: m.Use, rule: r, step: Step{
		UUID: m.UUID, Name: m.Name, Strategy: r.Strategy, Origin: r.Origin, Policy: r.Policy, Memory: m.Memory,
	}}
	p.moves = append(p.moves, d)

	d.blockersByHost, d.bytes, d.space = m.LiveBlockers, m.LiveBytes, m.LiveSpace
	if m.Active {
		d.step.Method = MethodFor(r, !m.Unmigratable())
		if r.FallsBack(d.step.Method) {
			d.step.Blockers = lastingTexts(m.LiveBlockers)
		}
		if d.step.Method == MethodCold {
			d.use, d.step.Memory = m.StartedUse, m.StartedMemory
		}
		if d.step.Method == MethodCold && m.ColdBlockers != nil {
			d.blockersByHost, d.bytes, d.space = m.ColdBlockers, m.ColdBytes, m.ColdSpace
		}
	} else {
		d.step.Method, d.step.Memory = MethodLeave, 0
		if p.MoveStopped && r.Strategy != External {
			d.step.Method = MethodCold
		}
		d.step.StartsAtBoot = m.Autostart && d.step.Method == MethodLeave
	}
	switch {
	case !m.Persistent && !slices.Contains([]string{MethodLive, MethodExternal, MethodBlocked}, d.step.Method):
		d.setBlocked(ReasonTransient, "it is transient, and would be gone once it is off")
	case d.step.Method == MethodBlocked:
		d.step.Blockers, d.step.Unblocks = blockerTexts(m.LiveBlockers), AnyFallback
		if !m.Persistent {
			d.step.Unblocks = NoFallback
		}
	case m.Pin == p.Host && m.Pin != "" && RequestsEviction(d.step.Method):
		d.step.Method = MethodPinned
		d.step.Blockers = []string{fmt.Sprintf("%s: its host attribute pins it to host %q", ReasonPinned, p.Host)}
	case d.step.Method == MethodLive, d.step.Method == MethodCold:
		p.findTargets(d)
	}
}

// findTargets finds the hosts that can take the VM.
func (p *planner) findTargets(d *decision) {
	for _, h := range p.Hosts {
		if blockers, asked := d.blockersByHost[h.Name]; asked && len(migration.Blocking(blockers)) == 0 {
			d.targets = append(d.targets, h.Name)
		}
	}
	switch {
	case len(d.targets) > 0:
	case len(d.blockersByHost) == 0:
		d.setBlocked(ReasonNoTarget, "no other host may take VMs")
	default:
		d.step.Unblocks = d.unblocks()
		d.step.Method, d.step.Blockers = MethodBlocked, blockerTexts(d.blockersByHost)
	}
}

// unblocks returns which fallback would unblock the VM if its method turns out to be blocked.
func (d *decision) unblocks() Unblocks {
	if d.vm.Active && d.vm.Persistent && d.step.Method == MethodCold {
		return LeavingFallback
	}
	return NoFallback
}

func (d *decision) setBlocked(reason, message string) {
	d.step.Unblocks = d.unblocks()
	d.step.Method, d.step.Target = MethodBlocked, ""
	d.step.Blockers = append(d.step.Blockers, reason+": "+message)
}

// assignTargets assigns a target to every VM that moves, so that all of them fit.
func (p *planner) assignTargets() {
	var going []*decision
	for _, d := range p.moves {
		if len(d.targets) > 0 {
			going = append(going, d)
		}
	}
	var left []*decision
	for i, host := range assignHosts(going, p.Hosts) {
		d := going[i]
		if host < 0 {
			left = append(left, d)
			continue
		}
		d.step.Target = p.Hosts[host].Name
		if tuned := policy.Winner(p.MigrationPolicies, d.vm.On(p.Host)); tuned != nil {
			d.step.MigrationPolicy = tuned.Name
		}
		d.step.Transfer = d.bytes[d.step.Target]
		d.step.Doubts = doubtTexts(d.blockersByHost[d.step.Target])
	}
	for _, d := range left {
		d.setBlocked(ReasonNoRoom, "no host has room for it in addition to all others: "+d.describeShortage(going, p.Hosts))
	}
}

// Unmigratable says whether no host, in any state, could accept the running VM. As in KubeVirt, a VM that only lacks a
// target now isn't unmigratable, and waits. So does a VM that is being backed up.
func (m VM) Unmigratable() bool {
	for _, blockers := range m.LiveBlockers {
		if len(lastingBlockers(blockers)) == 0 {
			return false
		}
	}
	return len(m.LiveBlockers) > 0
}

// lastingBlockers returns what blocks a move, without what may be gone later.
func lastingBlockers(blockers []migration.Blocker) []migration.Blocker {
	return slices.DeleteFunc(migration.Blocking(blockers), migration.IsTemporary)
}

// doubtTexts returns what may block the VM's move to a host that nothing is known to block.
func doubtTexts(way []migration.Blocker) []string {
	var all []string
	for _, b := range way {
		all = append(all, blockerText(b))
	}
	return all
}

// blockerText returns what a blocker says, and how to resolve it.
func blockerText(b migration.Blocker) string {
	text := b.Reason + ": " + strings.TrimSuffix(b.Message, ".")
	if b.Remedy != "" {
		text += ". " + strings.TrimSuffix(b.Remedy, ".")
	}
	return text
}

// blockerTexts returns what blocks the VM and how to resolve it, each text once even if several hosts report it.
func blockerTexts(ways map[string][]migration.Blocker) []string {
	return textsOf(ways, migration.Blocking)
}

// lastingTexts returns why no host could accept the VM in any state, as blockerTexts does.
func lastingTexts(ways map[string][]migration.Blocker) []string {
	return textsOf(ways, lastingBlockers)
}

func textsOf(
	ways map[string][]migration.Blocker, selected func([]migration.Blocker) []migration.Blocker,
) []string {
	var all []string
	for _, host := range slices.Sorted(maps.Keys(ways)) {
		for _, b := range selected(ways[host]) {
			text := blockerText(b)
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}
