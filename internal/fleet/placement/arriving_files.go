package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// fitsArriving returns a problem for each file of the VM that a move to the host hasn't copied to the end: another VM
// would start from half a disk. uuid is that of the VM, "" for a new one.
func fitsArriving(ctx context.Context, a inventory.Reply, d Desired, uuid string) []inventory.Problem {
	if len(d.Files) == 0 && len(d.Volumes) == 0 {
		return nil
	}

	arriving, err := a.ArrivingFiles(ctx, !d.Planned)
	if err != nil {
		return []inventory.Problem{{
			Attribute: "disks",
			Detail: fmt.Sprintf("it is unknown whether a move is still copying its disks there: %v",
				inventory.WithoutHost(err)),
		}}
	}

	if len(arriving) == 0 {
		return nil
	}

	files := maps.Clone(d.Files)
	if files == nil {
		files = map[string]string{}
	}

	for key, id := range d.Volumes {
		if v, err := ExistingVolume(ctx, a.Host, id); err == nil { // Otherwise, the check of volumes says so.
			files["disks."+key+".volume"] = v.Path
		}
	}

	half := a.Host.Unfinished(ctx, arriving, slices.Compact(slices.Sorted(maps.Values(files))), uuid)

	var problems []inventory.Problem

	for _, key := range slices.Sorted(maps.Keys(files)) {
		if f, is := half[files[key]]; is {
			problems = append(problems, inventory.Problem{
				Attribute: describeFile(key, files[key]).attribute, Detail: f.Why, Remedy: f.Remedy,
			})
		}
	}

	return problems
}

// replacedInPlan returns the UUID of the VM that a planned one replaces: its removal comes first, and removes its
// copies.
func (d Desired) replacedInPlan() string {
	if d.Planned {
		return d.Replaces
	}

	return ""
}

// verifyArrived returns an error if a VM that is off has a file that a move of another VM hasn't copied to the end.
func verifyArrived(ctx context.Context, vm *inventory.VM) error {
	if vm.Active {
		return nil
	}

	arriving, err := inventory.Reply{Host: vm.On}.ArrivingFiles(ctx, true)
	if err != nil {
		return err
	}

	if len(arriving) == 0 {
		return nil
	}

	files := slices.Compact(slices.Sorted(slices.Values(vm.FilesAtNextStart())))
	half := vm.On.Unfinished(ctx, arriving, files, vm.UUID)

	for _, file := range files {
		if f, is := half[file]; is {
			return &inventory.Error{
				VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Detail: "it is not started: " + f.Why, Remedy: f.Remedy,
				Next: inventory.Retry,
			}
		}
	}

	return nil
}
