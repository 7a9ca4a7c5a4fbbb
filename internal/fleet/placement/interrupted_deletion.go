package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// InterruptedDeletion is a deletion of a VM that has deleted a part of the VM's disks. Such a VM can only be deleted.
type InterruptedDeletion struct {
	// By is the run that began it, and Since when it did.
	By    string
	Since time.Time
	// Deleted are the own disks that are gone, by key. Left are the files of those that the deletion hasn't reached yet.
	Deleted, Left map[string]string
}

// InterruptedDeletion returns what a deletion that isn't finished has left of the VM, and nil if there was none, or if
// the VM still has all its disks: then it is as it was. It changes nothing.
func (p *Scheduler) InterruptedDeletion(ctx context.Context, vm *inventory.VM) *InterruptedDeletion {
	mark := vm.Metadata.Deleting
	if mark == nil || vm.Active {
		return nil
	}

	d := &InterruptedDeletion{
		By: mark.Owner, Since: mark.Since, Deleted: map[string]string{}, Left: map[string]string{},
	}

	for key, o := range vm.Metadata.OwnDisks {
		if IsFirstBoot(key) || !removedByDeletion(vm, o) {
			continue
		}

		ref := storage.Ref{Pool: o.Pool, Name: o.Volume}
		if gone, err := p.records.Storage().LooksGone(ctx, vm.Host, ref, o.Path, o.SeenIn); err == nil && gone {
			d.Deleted[key] = o.Path
		} else {
			d.Left[key] = o.Path
		}
	}

	if len(d.Deleted) == 0 {
		return nil
	}

	return d
}

// removedByDeletion reports whether an own disk that the VM has is deleted with it.
func removedByDeletion(vm *inventory.VM, o domain.OwnDisk) bool {
	return o.RemovedWithVM() && !o.Creating && vm.HasFile(o.Path)
}

// Text says what was interrupted, as the rest of a sentence about the VM.
func (d *InterruptedDeletion) Text() string {
	return fmt.Sprintf("its deletion, which %s began at %s, was interrupted or isn't over. Deleted already: %s", d.By,
		d.Since.UTC().Format(time.RFC3339), strings.Join(d.DeletedDisks(), ", "))
}

// DeletedDisks returns a line for each disk that is gone.
func (d *InterruptedDeletion) DeletedDisks() []string { return diskLines(d.Deleted) }

// LeftDisks returns a line for each disk that the deletion hasn't reached yet.
func (d *InterruptedDeletion) LeftDisks() []string { return diskLines(d.Left) }

func diskLines(files map[string]string) []string {
	lines := make([]string, 0, len(files))
	for _, key := range slices.Sorted(maps.Keys(files)) {
		lines = append(lines, "disks."+key+": "+files[key])
	}

	return lines
}

// VerifyUndeleted returns an error if a deletion of the VM was interrupted that has deleted one of its disks. The VM is
// then neither changed nor started.
func (p *Scheduler) VerifyUndeleted(ctx context.Context, vm *inventory.VM) error {
	d := p.InterruptedDeletion(ctx, vm)
	if d == nil {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Detail: d.Text(),
		Remedy: "It is neither changed nor started: delete the rest of it. A VM that is still wanted is then created again.",
		Next:   inventory.Replan,
	}
}
