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

// Input is everything that a plan depends on.
type Input struct {
	// Host is the host to be drained.
	Host string
	// VMs are all VMs of the host.
	VMs []VM
	// Hosts are the other hosts that accept VMs.
	Hosts []Host
	// Policies are the fleet's policies, Default the provider's strategy.
	Policies []Policy
	Default  string
	// MigrationPolicies tune how VMs are moved.
	MigrationPolicies []migration.Policy
	// MoveStopped says whether stopped VMs are moved too.
	MoveStopped bool
}

// VM returns the host's VM with this UUID, if it has that.
func (in Input) VM(uuid string) (vm VM, here bool) {
	at := slices.IndexFunc(in.VMs, func(m VM) bool { return m.UUID == uuid })
	if at < 0 {
		return VM{}, false
	}
	return in.VMs[at], true
}

// VM is one VM of the host.
type VM struct {
	UUID, Name string
	// Active says whether the VM runs or is paused, Persistent whether it has a definition that remains when it stops.
	Active, Persistent bool
	// Memory is how much memory a host needs for the VM, in bytes.
	Memory uint64
	// Use is what the VM requests from its host. Of a running VM it is what the VM has now.
	Use domain.HostUse
	// StartedMemory and StartedUse are the same once the VM is started from its definition, as a running VM is that is
	// turned off to be moved.
	StartedMemory uint64
	StartedUse    domain.HostUse
	Labels        map[string]string
	// Strategy is the VM's own strategy, "" for none.
	Strategy string
	// Pin is the host that the VM's configuration pins it to, "" for none.
	Pin string
	// Avoids are labels of VMs that this VM must not share a host with. Nil means none.
	Avoids map[string]string
	// LiveBlockers is, for each other host, what blocks moving the VM as it is now: while it runs, or while it is off.
	// It omits room and avoidance, which this package checks. ColdBlockers is the same for when the VM will be off; nil
	// means the same as LiveBlockers.
	LiveBlockers, ColdBlockers map[string][]migration.Blocker
	// Unclear says that the VM could not be inspected. LiveBlockers then has one doubt for each host that may accept it.
	Unclear bool
	// LiveBytes and ColdBytes are how much such a move copies at least to each host. Hosts to which nothing is known to
	// be copied are missing.
	LiveBytes, ColdBytes map[string]uint64
	// LiveSpace and ColdSpace are how much room such a move requires at least in each host's directories for the disks.
	LiveSpace, ColdSpace map[string]Space
}

// On returns what policies see of the VM while it is on that host.
func (m VM) On(host string) policy.VM {
	return policy.VM{Name: m.Name, Host: host, Labels: m.Labels}
}

// Host is a host that may accept VMs.
type Host struct {
	Name string
	// Free is how many bytes may still be committed there.
	Free uint64
	// FreeSpace is how much may still be written to the host's directories, where known.
	FreeSpace Space
	// Pages are the free bytes in huge pages, by page size. DefaultPage is the size that a VM gets that names none.
	Pages       map[uint64]uint64
	DefaultPage uint64
	// Devices are how many host devices of each class are free.
	Devices map[string]uint64
	// Shares are how much is left of what the host divides among its VMs, where known.
	Shares map[Share]uint64
	// VMs are those on the host.
	VMs []Neighbour
}

// Space holds numbers of bytes by directory. The number at a directory followed by GrowthIn is what its volumes may
// grow to, and not the space that they occupy.
type Space map[string]uint64

// GrowthIn marks a directory in Space.
const GrowthIn = " (storage_overprovisioning_factor)"

// minus returns what remains after something is taken.
func minus[M ~map[K]uint64, K comparable](has, taken M) M {
	left := maps.Clone(has)
	for of, bytes := range taken {
		if has, known := left[of]; known {
			left[of] = has - min(has, bytes)
		}
	}
	return left
}

// Neighbour is a VM on another host.
type Neighbour struct {
	Name           string
	Labels, Avoids map[string]string
	// Use is what the VM uses of its host.
	Use domain.HostUse
}

// Step is what a plan does with one VM.
type Step struct {
	UUID string `json:"id"`
	Name string `json:"name"`
	// Strategy, Origin and Policy are those of the VM's rule.
	Strategy string `json:"strategy"`
	Origin   string `json:"origin"`
	Policy   string `json:"policy,omitempty"`
	// MigrationPolicy is the name of the policy that tunes the migration. It is "" for none, and where nothing is
	// moved.
	MigrationPolicy string `json:"migration_policy,omitempty"`
	// Method is one of the methods, Target the host that the VM moves to, "" if it doesn't move.
	Method string `json:"method"`
	Target string `json:"target,omitempty"`
	// Transfer is how many bytes are copied at least: the VM's memory, if that moves, and its disks and files.
	Transfer uint64 `json:"transfer,omitempty"`
	// Blockers say why the method is MethodBlocked or MethodPinned.
	Blockers []string `json:"blockers,omitempty"`

	// Doubts are checks of the move to the target that have no result yet. Any of them may block the move.
	Doubts []string `json:"-"`
	// Memory is how much of the target's memory the VM requires, in bytes.
	Memory uint64 `json:"-"`
}

// Reasons for blocked VMs, in addition to those of migrations.
const (
	// ReasonNoRoom: the VM could be moved, but no host has room for it in addition to all others.
	ReasonNoRoom = "NoRoom"
	// ReasonNoTarget: there is no other host, or none that accepts VMs.
	ReasonNoTarget = "NoTarget"
	// ReasonPinned: the VM's configuration pins it to this host.
	ReasonPinned = "Pinned"
	// ReasonTransient: the VM has no definition, and would be gone when it is off.
	ReasonTransient = "Transient"
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
	}
	switch {
	case !m.Persistent && !slices.Contains([]string{MethodLive, MethodExternal, MethodBlocked}, d.step.Method):
		d.setBlocked(ReasonTransient, "it is transient, and would be gone once it is off")
	case d.step.Method == MethodBlocked:
		d.step.Blockers = blockerTexts(m.LiveBlockers)
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
		d.step.Method, d.step.Blockers = MethodBlocked, blockerTexts(d.blockersByHost)
	}
}

func (d *decision) setBlocked(reason, message string) {
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
		lasting := slices.ContainsFunc(migration.Blocking(blockers), func(b migration.Blocker) bool {
			return !migration.IsTemporary(b)
		})
		if !lasting {
			return false
		}
	}
	return len(m.LiveBlockers) > 0
}

// doubtTexts returns what may block the VM's move to a host that nothing is known to block.
func doubtTexts(way []migration.Blocker) []string {
	var all []string
	for _, b := range way {
		all = append(all, b.Reason+": "+strings.TrimSuffix(b.Message, "."))
	}
	return all
}

// blockerTexts returns what blocks the VM and how to resolve it, each text once even if several hosts report it.
func blockerTexts(ways map[string][]migration.Blocker) []string {
	var all []string
	for _, host := range slices.Sorted(maps.Keys(ways)) {
		for _, b := range migration.Blocking(ways[host]) {
			text := b.Reason + ": " + strings.TrimSuffix(b.Message, ".")
			if b.Remedy != "" {
				text += ". " + strings.TrimSuffix(b.Remedy, ".")
			}
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}
