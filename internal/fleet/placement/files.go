package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// fitsFiles returns which files that the VM needs are missing on the host, and which may be missing: as problems if the
// VM runs there, else as doubts.
func (p *Scheduler) fitsFiles(
	ctx context.Context, h *inventory.Host, d Desired, runs bool,
) (problems, doubts []inventory.Problem) {
	found := p.hosts.FindFiles(ctx, h, slices.Compact(slices.Sorted(maps.Values(d.Files))))

	for _, attribute := range slices.Sorted(maps.Keys(d.Files)) {
		file := d.Files[attribute]
		what := describeFile(attribute, file)
		remedy := what.remedy()

		p := inventory.Problem{
			Attribute: what.attribute, Detail: fmt.Sprintf("it has no %s %q", what.noun, file), Remedy: remedy,
		}
		doubt := inventory.Problem{
			Attribute: what.attribute, Warning: true, Summary: "File not found on the host", Remedy: remedy,
		}

		switch found[file] {
		case inventory.FileAbsent:
			doubt.Detail = fmt.Sprintf("VM %q has %s, and host %q has no such %s. This change doesn't start the VM; "+
				"without the %s it can't be started.", d.Spec.Name, what.setting, h.Name, what.noun, what.noun)
		case inventory.FileDoubtful:
			doubt.Detail = fmt.Sprintf("VM %q has %s, and the storage pool of that directory on host %q has no "+
				"such volume, as it was when it was refreshed last.", d.Spec.Name, what.setting, h.Name)
		case inventory.FileUnknown:
			doubt.Summary = "File not checked on the host"
			doubt.Detail = fmt.Sprintf("VM %q has %s, and host %q didn't say in time whether it has that %s.",
				d.Spec.Name, what.setting, h.Name, what.noun)
			doubt.Remedy = "Try again when the host answers faster; otherwise, the change itself says whether the " + what.noun +
				" is missing."
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
const remedyOfFiles = "Correct the path, or put the file there first. If another resource makes it, take " +
	"the path from an attribute of that resource that is unknown until it exists: that isn't looked for."

// remedyOfPaths is the remedy for a directory or device that is missing on a host.
const remedyOfPaths = "Correct the path, create the %s on the host first, or choose a host that has it."

// neededFile is how users know a file that a VM needs.
type neededFile struct {
	// attribute is the attribute that names the file, setting what the configuration says there, noun what the file is.
	attribute, setting, noun string
}

// describeFile describes a file of Desired.Files. What follows a "[" in its key is the key of a map that isn't part of
// the attribute's path.
func describeFile(key, file string) neededFile {
	attribute, _, isKey := strings.Cut(key, "[")
	f := neededFile{attribute: attribute, setting: fmt.Sprintf("%s = %q", key, file), noun: "file"}

	switch {
	case isKey:
		f.noun, f.setting = "block device", key
	case strings.HasPrefix(key, "devices.filesystems."):
		f.noun = "directory"
	case key == domain.Vsock:
		f.noun, f.setting = "device", fmt.Sprintf("%s, which needs %s", key, file)
	case strings.HasPrefix(key, "devices.serials."):
		f.noun = "serial device"
	case strings.HasSuffix(key, ".rendernode"):
		f.noun = "render node"
	}

	return f
}

func (f neededFile) remedy() string {
	switch {
	case f.attribute == domain.Vsock:
		return domain.VsockRemedy
	case f.noun == "file":
		return remedyOfFiles
	}

	return fmt.Sprintf(remedyOfPaths, f.noun)
}

// judgeFiles checks for the VM's files on the hosts that fit otherwise.
func (p *Scheduler) judgeFiles(ctx context.Context, all []candidate, d Desired) {
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
	if have.Values.HasVsock() {
		known = append(known, domain.VhostVsock)
	}

	for _, row := range have.Filesystems {
		known = append(known, row["source"])
	}

	for _, row := range have.Serials {
		known = append(known, row["path"])
	}

	files := maps.Clone(d.Files)
	maps.DeleteFunc(files, func(_, file string) bool { return slices.Contains(known, file) })

	return files
}
