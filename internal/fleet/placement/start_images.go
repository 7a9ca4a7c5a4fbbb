package placement

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// fitsStartedImages is fitsStartedDisks for the RBD images of the VM's own disks. QEMU, and not the host, opens them:
// libvirt tries to when it reads the volume. Ceph refuses to remove an image that a running VM has open.
func (p *Scheduler) fitsStartedImages(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired,
) (problems, doubts []inventory.Problem) {
	if !d.starts(vm) || a.Host != vm.On {
		return nil, nil
	}

	made := d.RenamedOwnDisks(vm)
	for _, key := range slices.Sorted(maps.Keys(made)) {
		is := made[key]
		_, declared := d.OwnDisks[key]

		if is.Creating || is.Removing || path.IsAbs(is.Path) || !vm.HasAtNextStart(is.Path) ||
			d.Spec.Disks != nil && !declared {
			continue
		}

		pool, err := a.Host.Conn.StoragePool(ctx, is.Pool)
		if err != nil || !pool.Active {
			continue // It is unknown whether the image is there.
		}

		_, err = a.Host.Conn.PoolVolume(ctx, is.Pool, is.Volume)

		switch {
		case err == nil:
		case inventory.IsNotFound(err):
			doubts = append(doubts, inventory.Problem{
				Attribute: OwnDiskAttribute(key, "pool"), Warning: true, Summary: "File not found on the host",
				Detail: fmt.Sprintf("Disk %q of VM %q is the RBD image %s. Storage pool %q on host %q has no such volume, as it "+
					"was when it was refreshed last. Without the image, the VM can't be started.", key, vm.Name, is.Path, is.Pool,
					a.Host.Name),
				Remedy: remedyOfGoneImage,
			})
		default:
			problems = append(problems, inventory.Problem{
				Attribute: OwnDiskAttribute(key, "pool"), Remedy: remedyOfGoneImage,
				Detail: fmt.Sprintf("it can't open the RBD image %s, which is disk %q of the VM, so that the VM can't be "+
					"started: %v", is.Path, key, err),
			})
		}
	}

	return problems, doubts
}

const remedyOfGoneImage = "If the image is gone, put it back under its name, from a backup for example. Nothing does " +
	"that by itself. If what was on it may be lost, remove the disk from disks as a change of its own, with " +
	"run_strategy = \"Halted\", and then declare it again."
