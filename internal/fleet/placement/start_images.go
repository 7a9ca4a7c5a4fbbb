package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsStartedImages is fitsStartedDisks for the RBD images of the VM's own disks. QEMU, and not the host, opens them:
// libvirt tries to when it reads the volume. Ceph refuses to remove an image that a running VM has open.
func (p *Scheduler) fitsStartedImages(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired,
) (problems, doubts []inventory.Problem) {
	if !d.starts(vm) || a.Host != vm.On {
		return nil, nil
	}

	active := map[string]bool{}
	made := d.RenamedOwnDisks(vm)
	for _, key := range slices.Sorted(maps.Keys(made)) {
		is := made[key]
		_, declared := d.OwnDisks[key]

		if is.Creating || is.Removing || path.IsAbs(is.Path) || !vm.HasAtNextStart(is.Path) ||
			d.Spec.Disks != nil && !declared {
			continue
		}

		if _, asked := active[is.Pool]; !asked {
			pool, err := a.Host.Conn.StoragePool(ctx, is.Pool)
			active[is.Pool] = err == nil && pool.Active
		}

		if !active[is.Pool] {
			continue // It is unknown whether the image is there.
		}

		_, err := a.Host.Conn.PoolVolume(ctx, is.Pool, is.Volume)

		switch problem, lost := imageProblem(vm, key, is, a.Host.Name, err); {
		case err == nil:
		case lost:
			problems = append(problems, problem)
		default:
			doubts = append(doubts, problem)
		}
	}

	return problems, doubts
}

// imageProblem says what an error about the RBD image of an own disk means. lost says that the VM can't be started.
// Only an error of Ceph is about the image: others are about the host, or the pool at this moment.
func imageProblem(
	vm *inventory.VM, key string, o domain.OwnDisk, host string, err error,
) (p inventory.Problem, lost bool) {
	p = inventory.Problem{Attribute: OwnDiskAttribute(key, "pool"), Warning: true}

	switch {
	case inventory.IsNotFound(err):
		p.Summary, p.Remedy = "File not found on the host", remedyOfGoneImage
		p.Detail = fmt.Sprintf("Disk %q of VM %q is the RBD image %s. Storage pool %q on host %q has no such volume, as it "+
			"was when it was refreshed last. Without the image, the VM can't be started.", key, vm.Name, o.Path, o.Pool, host)
	case errors.Is(err, libvirt.ErrInternal):
		p.Warning, p.Remedy, lost = false, remedyOfGoneImage, true
		p.Detail = fmt.Sprintf("it can't open the RBD image %s, which is disk %q of the VM, so that the VM can't be "+
			"started: %v", o.Path, key, err)
	default:
		p.Summary = "File not found on the host"
		p.Detail = fmt.Sprintf("Disk %q of VM %q is the RBD image %s. Whether storage pool %q on host %q has it is unknown: "+
			"%v.", key, vm.Name, o.Path, o.Pool, host, err)
	}

	return p, lost
}

const remedyOfGoneImage = "If the image is gone, put it back under its name, from a backup for example. Nothing does " +
	"that by itself. If what was on it may be lost, remove the disk from disks as a change of its own, with " +
	"run_strategy = \"Halted\", and then declare it again."
