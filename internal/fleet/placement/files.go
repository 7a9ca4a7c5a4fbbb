package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// fitsFiles returns which files that the VM needs are missing on the host, and which may be missing: as problems if the
// VM runs there, else as doubts.
func (p *Planner) fitsFiles(
	ctx context.Context, h *inventory.Host, d Desired, runs bool,
) (problems, doubts []inventory.Problem) {
	found := p.hosts.FindFiles(ctx, h, slices.Compact(slices.Sorted(maps.Values(d.Files))))

	for _, attribute := range slices.Sorted(maps.Keys(d.Files)) {
		file := d.Files[attribute]

		p := inventory.Problem{Attribute: attribute, Detail: fmt.Sprintf("it has no file %q", file)}
		doubt := inventory.Problem{
			Attribute: attribute, Warning: true, Summary: "File not found on the host",
			Remedy: remedyOfFiles,
		}

		switch found[file] {
		case inventory.FileAbsent:
			doubt.Detail = fmt.Sprintf("VM %q has %s = %q, and host %q has no such file. This "+
				"apply doesn't start the VM; without the file it can't be started.", d.Spec.Name, attribute, file, h.Name)
		case inventory.FileDoubtful:
			doubt.Detail = fmt.Sprintf("VM %q has %s = %q, and the storage pool of that directory on host %q has no "+
				"such volume, as it was when it was refreshed last.", d.Spec.Name, attribute, file, h.Name)
		case inventory.FileUnknown:
			doubt.Summary = "File not checked on the host"
			doubt.Detail = fmt.Sprintf("VM %q has %s = %q, and host %q didn't say in time whether it has that file.",
				d.Spec.Name, attribute, file, h.Name)
			doubt.Remedy = "Plan again when the host answers faster; otherwise, the apply says whether the file is missing."
		default:
			continue
		}

		if runs && found[file] == inventory.FileAbsent {
			problems = append(problems, p)
		} else {
			doubts = append(doubts, doubt)
		}
	}

	return problems, doubts
}

// remedyOfFiles is the remedy for a file that is missing on a host.
const remedyOfFiles = "Correct the path, or put the file there first. If another resource of this configuration " +
	"makes it, take the path from an attribute of that resource that is known after apply: that isn't looked for."

// judgeFiles checks for the VM's files on the hosts that fit otherwise.
func (p *Planner) judgeFiles(ctx context.Context, all []candidate, d Desired) {
	if len(d.Files) == 0 {
		return
	}

	var wg sync.WaitGroup

	for i := range all {
		if c := &all[i]; len(c.problems) == 0 {
			wg.Go(func() {
				c.problems, c.doubts = p.fitsFiles(ctx, c.Host, d, status.StartsOnCreate(d.Strategy()))
			})
		}
	}

	wg.Wait()
	sortCandidates(all)
}

// runsOn reports whether the VM will run after the change.
func (d Desired) runsOn(vm *inventory.VM) bool {
	switch d.PowerAction(vm) {
	case status.Start:
		return true
	case status.Stop:
		return false
	default:
		return vm.Active
	}
}

// starts reports whether the change starts a VM that is off.
func (d Desired) starts(vm *inventory.VM) bool { return !vm.Active && d.runsOn(vm) }

// newFiles returns the files that the VM doesn't have yet.
func (d Desired) newFiles(vm *inventory.VM) map[string]string {
	have := vm.DeclaredSpec()

	var known []string

	for _, disk := range have.Disks {
		known = append(known, disk.Source.File, disk.Source.Block)
	}

	if have.Kernel != nil {
		known = append(known, have.Kernel.Path, have.Kernel.Initrd)
	}

	known = append(known, have.Values.Files()...)

	files := maps.Clone(d.Files)
	maps.DeleteFunc(files, func(_, file string) bool { return slices.Contains(known, file) })

	return files
}
