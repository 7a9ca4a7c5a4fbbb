package evacuation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// DescribeChanges returns why the steps of a plan can't be followed exactly with the input as it is now: one sentence
// for each difference, none when the steps hold. A step that is already done, by any run or tool, still holds.
func DescribeChanges(steps []Step, in Input) []string {
	var changes []string
	p := planner{Input: in}
	for _, m := range in.VMs {
		p.decideVM(m)
	}
	var going []*decision
	for _, d := range p.moves {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.UUID == d.vm.UUID })
		if i < 0 {
			if d.step.Method != MethodLeave {
				changes = append(changes, fmt.Sprintf("virtual machine %q has come to host %q", d.step.Name, in.Host))
			}
			continue
		}
		want := steps[i]
		if change := d.describeChange(want); change != "" {
			changes = append(changes, change)
			continue
		}
		if want.Target != "" && d.step.Method != MethodLeave {
			d.targets = []string{want.Target}
			going = append(going, d)
		}
	}
	for i, host := range assignHosts(going, in.Hosts) {
		if host < 0 {
			d := going[i]
			changes = append(changes, fmt.Sprintf("virtual machine %q no longer fits: %s", d.step.Name,
				cmp.Or(d.describeShortage(nil, in.Hosts), "its target is gone")))
		}
	}
	return changes
}

// describeChange returns how the VM's step would differ now.
func (d *decision) describeChange(want Step) string {
	now := d.step
	off := !d.vm.Active
	switch {
	case off && (want.Method == MethodShutdown || want.Method == MethodSave || want.Method == MethodLeave):
		return ""
	case off && want.Method != MethodCold:
		return fmt.Sprintf("virtual machine %q was to be evicted by %s, and is off now", now.Name, want.Method)
	case now.Method == MethodBlocked && want.Method != MethodBlocked:
		return fmt.Sprintf("virtual machine %q can't be evicted any more: %s", now.Name, strings.Join(now.Blockers, "; "))
	case now.Method != want.Method || now.Strategy != want.Strategy || now.Origin != want.Origin:
		why := ""
		if len(now.Blockers) > 0 {
			why = ": " + strings.Join(now.Blockers, "; ")
		}
		return fmt.Sprintf("virtual machine %q was to be evicted by %s (strategy %s of %s), and would be by %s (%s of %s) "+
			"now%s", now.Name, want.Method, want.Strategy, want.Origin, now.Method, now.Strategy, now.Origin, why)
	case want.Target != "" && !slices.Contains(d.targets, want.Target):
		why := blockerTexts(map[string][]migration.Blocker{want.Target: d.blockersByHost[want.Target]})
		return strings.TrimSuffix(fmt.Sprintf("virtual machine %q can't go to host %q any more: %s", now.Name, want.Target,
			strings.Join(why, "; ")), ": ")
	default:
		return ""
	}
}
