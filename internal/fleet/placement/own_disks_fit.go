package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// fitsOwnDisks checks that the host has the storage pools of the disks to be created or grown, with room for all of
// them, and the images.
func (p *Scheduler) fitsOwnDisks(
	ctx context.Context, a inventory.Reply, d Desired, grown map[string]grownDisk,
) []inventory.Problem {
	var problems []inventory.Problem

	needs := map[string]poolNeed{}

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		o := d.OwnDisks[key]

		demand, pool, m := p.ownDiskMisfit(ctx, a, key, o, d.Spec.Disks[key])
		said := m.attribute == "pool" && d.saidOfDisk(key) && !m.firstBoot
		if m.why != "" && !d.comesLater(o, m) && !said {
			problems = append(problems, inventory.Problem{Attribute: OwnDiskAttribute(key, m.attribute), Detail: m.why})
		}

		if pool != nil {
			needs[o.Pool] = needs[o.Pool].plus(key, pool, demand)
		}
	}

	for _, key := range slices.Sorted(maps.Keys(grown)) {
		if pool, demand := growthOf(ctx, a, grown[key]); pool != nil {
			needs[pool.Name] = needs[pool.Name].plus(key, pool, demand)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(needs)) {
		need := needs[name]
		why := p.lacksRoom(ctx, a, d.Spec.Name, need.pool, need.demand)
		if why != "" {
			if leaving := p.leavingVolumes(ctx, a, d, name); len(leaving) > 0 {
				why = p.lacksRoom(ctx, a, d.Spec.Name, need.pool, need.demand, leaving...)
			}
		}

		if why != "" {
			problems = append(problems, inventory.Problem{
				Attribute: OwnDiskAttribute(need.key, "pool"), Detail: fmt.Sprintf("its storage pool %q %s", name, why),
			})
		}
	}

	return problems
}

// leavingVolumes returns the names of the volumes in a storage pool of the host that make room for the VM's new disks:
// those that are removed with the VM that it replaces, and those that an interrupted creation of the VM has made
// already.
func (p *Scheduler) leavingVolumes(ctx context.Context, a inventory.Reply, d Desired, pool string) []string {
	if d.Replaces == "" {
		return nil
	}

	vm, err := p.hosts.Find(ctx, d.Replaces, inventory.LastKnown{})
	if err != nil {
		return nil
	}

	var names []string

	for _, o := range vm.Metadata.OwnDisks {
		if o.Pool == pool && vm.OwnsHere(o) && (o.RemovedWithVM() || d.Completes) {
			names = append(names, o.Volume)
		}
	}

	if len(names) == 0 || a.Host != vm.On && !p.records.Storage().SamePool(ctx, pool, vm.Host, a.Host.Name) {
		return nil
	}

	return names
}

// poolNeed is what new and growing disks of a VM need of a storage pool; key is that of the last one.
type poolNeed struct {
	key    string
	pool   *libvirt.StoragePool
	demand storage.Demand
}

func (n poolNeed) plus(key string, pool *libvirt.StoragePool, d storage.Demand) poolNeed {
	return poolNeed{key, pool, n.demand.Plus(d)}
}

// grownDisk is an existing disk that a change makes larger.
type grownDisk struct {
	domain.OwnDisk

	to uint64
	// format is the format with which the VM uses the disk, see UsedFormat.
	format string
	// live says that QEMU makes it larger: then it occupies nothing more at once.
	live bool
}

// grownDisks returns the own disks of the VM that the change makes larger.
func (d Desired) grownDisks(vm *inventory.VM) map[string]grownDisk {
	grown := map[string]grownDisk{}
	made := d.RenamedOwnDisks(vm)

	for key, want := range d.OwnDisks {
		if is, there := made[key]; there && !is.Creating && want.Bytes > is.Bytes {
			grown[key] = grownDisk{
				OwnDisk: is, to: want.Bytes, format: UsedFormat(vm.DeclaredSpec(), is.Path), live: vm.Active,
			}
		}
	}

	return grown
}

// growthOf returns what a disk needs in addition to what it has, and its storage pool; nil if the host doesn't have it.
func growthOf(ctx context.Context, a inventory.Reply, g grownDisk) (*libvirt.StoragePool, storage.Demand) {
	v, err := a.Host.Conn.PoolVolume(ctx, g.Pool, g.Volume)
	if err != nil {
		return nil, storage.Demand{}
	}

	bytes := v.UsedAs(g.format).CapacityBytes
	if bytes >= g.to {
		return nil, storage.Demand{}
	}

	pool, err := a.Host.Conn.StoragePool(ctx, g.Pool)
	if err != nil {
		return nil, storage.Demand{}
	}

	d := storage.Demand{Growth: g.to - bytes}
	if storage.GrowsThick(g.Preallocation, *v) && !g.live {
		d.Now = d.Growth
	}

	return pool, d
}

// misfit is why a host can't have a disk. missing says that it lacks an object that can be created there, pool that it
// lacks that storage pool.
type misfit struct {
	attribute, why string
	missing        bool
	pool           string
	// firstBoot says that a disk could have what a first-boot volume can't.
	firstBoot bool
}

// comesLater reports whether the same apply may create what the host lacks of a disk.
func (d Desired) comesLater(o domain.OwnDisk, m misfit) bool {
	if m.pool != "" {
		return d.Planned && !d.UnplannedPools[m.pool]
	}

	return d.Planned && m.missing && !d.UnplannedImages[o.Image]
}

// saidOfDisk reports whether what is wrong with the storage pool of a first-boot volume is also said of a disk, whose
// pool it usually has: one mistake gives one error.
func (d Desired) saidOfDisk(key string) bool {
	for other, o := range d.OwnDisks {
		if IsFirstBoot(key) && !IsFirstBoot(other) && o.Pool == d.OwnDisks[key].Pool {
			return true
		}
	}

	return false
}

// ownDiskMisfit returns why the host can't have a new disk, apart from room. If it can, it returns what the disk needs
// of which storage pool; nil for a pool that isn't active.
func (p *Scheduler) ownDiskMisfit(
	ctx context.Context, a inventory.Reply, key string, o domain.OwnDisk, disk domain.Disk,
) (storage.Demand, *libvirt.StoragePool, misfit) {
	no := func(attribute, why string) (storage.Demand, *libvirt.StoragePool, misfit) {
		return storage.Demand{}, nil, misfit{attribute: attribute, why: why}
	}

	pool, err := a.Host.Conn.StoragePool(ctx, o.Pool)

	switch {
	case inventory.IsNotFound(err), errors.Is(err, libvirt.ErrNoPool):
		return storage.Demand{}, nil, lacksPool("pool", o.Pool)
	case err != nil:
		return no("pool", fmt.Sprintf("its storage pool %q can't be read: %v", o.Pool, err))
	}

	if why := UnfitPool(ctx, a.Host, pool, key); why != "" {
		return storage.Demand{}, nil, misfit{
			attribute: "pool", why: why, firstBoot: IsFirstBoot(key) && UnfitPool(ctx, a.Host, pool, "") == "",
		}
	}

	if attribute, why := unfitOwnDisk(pool, o, disk); why != "" {
		return no(attribute, why)
	}

	if !pool.Active {
		return no("", "") // the pool is started before the disk is created
	}

	ref := storage.ParseRef(o.Image)
	if ref == nil {
		return demandOf(o, nil), pool, misfit{}
	}

	whole := true

	image, err := a.Host.Conn.PoolVolume(ctx, ref.Pool, ref.Name)
	if err == nil && ref.NamedByContent() {
		whole, err = p.whole.check(a.Host.Name, *image, func() (bool, error) {
			return p.records.Storage().IsWhole(ctx, a.Host.Name, *image)
		})
	}

	switch {
	// The same apply may bring the image: the disk needs what is declared at least.
	case errors.Is(err, libvirt.ErrNoPool):
		return demandOf(o, nil), pool, lacksPool("image", ref.Pool)
	case inventory.IsNotFound(err):
		return demandOf(o, nil), pool, misfit{
			attribute: "image", why: fmt.Sprintf("it has no copy of image %q", o.Image), missing: true,
		}
	case err != nil:
		return no("image", fmt.Sprintf("its copy of image %q can't be read: %v", o.Image, err))
	case !whole:
		return demandOf(o, nil), pool, misfit{
			attribute: "image", why: fmt.Sprintf("its copy of image %q is incomplete", o.Image), missing: true,
		}
	case o.Bytes > 0 && o.Bytes < image.CapacityBytes:
		return no("size", fmt.Sprintf("image %q has %s, and the disk is to have %s", o.Image,
			domain.FormatSize(image.CapacityBytes), domain.FormatSize(o.Bytes)))
	default:
		return demandOf(o, image), pool, misfit{}
	}
}

func lacksPool(attribute, pool string) misfit {
	return misfit{attribute: attribute, why: fmt.Sprintf("it has no storage pool %q", pool), missing: true, pool: pool}
}

// grownByHand returns a problem for each disk that is to grow, and already is larger than that because a user has
// resized it. Unless a disk is to grow, its size isn't read.
func grownByHand(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	var problems []inventory.Problem

	made := d.RenamedOwnDisks(vm)
	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		is, want := made[key], d.OwnDisks[key].Bytes
		if is.Volume == "" || is.Creating || want <= is.Bytes || !vm.OwnsHere(is) {
			continue
		}

		volume, err := vm.On.Conn.PoolVolume(ctx, is.Pool, is.Volume)
		if err != nil {
			continue
		}

		bytes := volume.UsedAs(UsedFormat(vm.DeclaredSpec(), volume.Path)).CapacityBytes
		if bytes <= want {
			continue
		}

		has := domain.FormatSize(bytes)
		problems = append(problems, inventory.Problem{
			Attribute: OwnDiskAttribute(key, "size"), Summary: "Disks never shrink",
			Detail: fmt.Sprintf("Disk %q of VM %q has %s on host %q, because a user resized it, and size is %s.",
				key, vm.Name, has, vm.Host, domain.FormatSize(want)),
			Remedy: fmt.Sprintf("Set size to %q or more.", has),
		})
	}

	return problems
}

// growsOverlaid returns a problem for each disk that is to grow while the VM doesn't use its volume directly: a
// snapshot has put an overlay on it, or a user has given the VM another file.
func growsOverlaid(vm *inventory.VM, d Desired) []inventory.Problem {
	var problems []inventory.Problem

	have := vm.DeclaredSpec().Disks
	made := d.RenamedOwnDisks(vm)

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		is, disk := made[key], have[key]
		if is.Volume == "" || is.Creating || d.OwnDisks[key].Bytes <= is.Bytes || disk.Source.Name() == "" ||
			disk.Source.VolumePath() == is.Path {
			continue
		}

		if vm.IsElsewhere(key, is) {
			problems = append(problems, inventory.Problem{
				Attribute: OwnDiskAttribute(key, "size"), Summary: "Disk has left its volume: " + vm.Name,
				Detail: fmt.Sprintf("Disk %q of VM %q was created as %q. On host %q the VM now uses %s, which isn't based on that "+
					"volume, as after \"virsh blockcopy\" or \"virsh blockpull\", and would not see it grow.", key, vm.Name, is.Path,
					vm.Host, disk.Source),
				Remedy: fmt.Sprintf("Declare the disk as it is: %s = %q in place of pool and what belongs to pool. Both files "+
					"stay. Then grow it with \"virsh blockresize\". Or set size back.", sourceKind(disk.Source), disk.Source.Name()),
			})

			continue
		}

		problems = append(problems, inventory.Problem{
			Attribute: OwnDiskAttribute(key, "size"), Summary: "Disk can't grow under an overlay",
			Detail: fmt.Sprintf("Disk %q of VM %q was created as %q. On host %q the VM now uses %s, as after a snapshot, and "+
				"would not see that volume grow.", key, vm.Name, is.Path, vm.Host, disk.Source),
			Remedy: fmt.Sprintf("Merge the overlay into the volume first: \"virsh blockcommit %s %s --active --pivot\" while "+
				"the VM runs. Or set size back.", domain.ShellWord(vm.Name), domain.ShellWord(disk.Source.Name())),
		})
	}

	return problems
}

func sourceKind(s domain.DiskSource) string {
	if s.Block != "" {
		return "block"
	}

	return "file"
}

// ofKey returns the key that a retired record had. Keys of disks contain no dot.
func ofKey(key string) string {
	base, _, _ := strings.Cut(key, ".")

	return base
}

// IsFirstBoot reports whether a record is of a first-boot medium, not of a disk.
func IsFirstBoot(key string) bool {
	return ofKey(key) == domain.MediumKey || ofKey(key) == domain.IgnitionKey
}

// OwnDiskTitle returns the name of an own disk for use in a sentence.
func OwnDiskTitle(key string) string {
	switch ofKey(key) {
	case domain.MediumKey:
		return "the cloud-init medium"
	case domain.IgnitionKey:
		return "the Ignition configuration"
	default:
		return fmt.Sprintf("disk %q", key)
	}
}

// OwnDiskAttribute returns the path of an attribute of an own disk.
func OwnDiskAttribute(key, attribute string) string {
	switch ofKey(key) {
	case domain.MediumKey:
		return "cloud_init." + attribute
	case domain.IgnitionKey:
		return "ignition." + attribute
	default:
		return "disks." + key + "." + attribute
	}
}
