package storage

import (
	"path"
	"slices"
)

// kind is what the provider knows about a type of storage pools.
type kind struct {
	name string
	// requires are the attributes that libvirt requires of a new pool. It has defaults for all others.
	requires []string
	// nameIsSource says that the source is called like the pool if source.name isn't set.
	nameIsSource bool
	// manyDevices says that source.devices may be extended by others, so that they don't say which storage it is.
	manyDevices bool

	// files says that the volumes are files below target.path.
	files bool
	// ownDirectory says that no other devices are in target.path.
	ownDirectory bool
	// devices says that the volumes are block devices of the host.
	devices bool
	// partitions says that the volumes are partitions, which libvirt names.
	partitions bool
	// anyFormat says that the volumes may be of any format; otherwise they are raw.
	anyFormat bool
	// thick says that volumes must occupy all their space at once. libvirt would make a thin one as an LVM snapshot, which
	// holds 4 MiB and loses all its data once more is written to it.
	thick bool
	// images says that libvirt can create volumes, and upload to them.
	images bool
	// imagesByHand says how a user brings an image into such a pool, because libvirt can't; "" if that isn't known.
	imagesByHand string
	// copiesByHand says how a user copies a volume or an image into such a pool, because libvirt can't; "" if it can.
	copiesByHand string
	// filled says that QEMU copies volumes and images into such a pool, because libvirt can't. Into Ceph, libvirt makes a
	// clone of the image that has the name of the source in the new volume's pool, whatever pool the source is in, and
	// leaves a protected snapshot, with which that image can't be removed.
	filled bool
	// existing says that libvirt can't create volumes: only those that exist can be used.
	existing bool
	// staying says that libvirt can't remove or grow volumes either.
	staying bool
	// protocol is that of a network disk on the volumes; "" if they are files or devices of the host.
	protocol string

	// shared says that all hosts see the same volumes.
	shared bool
	// sameFiles says that a path is the same file on all hosts.
	sameFiles bool

	// buildsDirectory says that building creates only target.path. That is done by default, also for another target.path.
	buildsDirectory bool
	// refusesOverwrite says that building formats something, and that libvirt can be told to overwrite nothing.
	refusesOverwrite bool
	// mounts says that libvirt mounts the storage at target.path.
	mounts bool
	// losesVolumes says that a host can't use the volumes while the pool is stopped. For "scsi" see Pool.LosesVolumes.
	losesVolumes bool
	// removable says that what the pool is based on can be removed with it: with removesData all volumes, otherwise a
	// directory that must be empty. libvirt would also remove the partition table of a disk, without a look at its
	// partitions.
	removable, removesData bool
}

// namedCopies says that the pool can have images: libvirt names partitions itself.
func (k kind) namedCopies() bool { return k.images && !k.partitions }

// partitionTypes are what libvirt takes for the format of a partition.
var partitionTypes = []string{
	"none", "linux", "fat16", "fat32", "linux-swap", "linux-lvm", "linux-raid", "extended",
}

// has reports whether the volumes of the pool can have the format; "" is the default. libvirt ignores the format of
// most devices, and a VM would then expect another content. In one that is encrypted it finds LUKS.
func (k kind) has(format string) bool {
	return !k.devices && k.protocol == "" || k.anyFormat || slices.Contains([]string{"", "raw", "luks"}, format) ||
		k.partitions && slices.Contains(partitionTypes, format)
}

// kinds are the types that a pool can be declared with, in the order of the documentation.
var kinds = []kind{
	{
		name: "dir", requires: []string{"target.path"},
		files: true, ownDirectory: true, anyFormat: true, images: true, buildsDirectory: true, removable: true,
	},
	{
		name: "fs", requires: []string{"target.path", "source.devices"},
		files: true, ownDirectory: true, anyFormat: true, images: true, refusesOverwrite: true, mounts: true,
		losesVolumes: true, removable: true,
	},
	{
		name: "netfs", requires: []string{"target.path", "source.hosts", "source.dir"},
		files: true, ownDirectory: true, anyFormat: true, images: true, shared: true, sameFiles: true,
		buildsDirectory: true, mounts: true, losesVolumes: true, removable: true,
	},
	{
		name: "logical", nameIsSource: true, manyDevices: true, devices: true, ownDirectory: true, thick: true,
		images: true, refusesOverwrite: true, losesVolumes: true, removable: true, removesData: true,
	},
	{
		name: "disk", requires: []string{"target.path", "source.devices"},
		devices: true, partitions: true, images: true, refusesOverwrite: true,
	},
	{
		name: "iscsi", requires: []string{"target.path", "source.hosts", "source.devices"},
		devices: true, existing: true, staying: true, shared: true, losesVolumes: true,
	},
	{
		name: "iscsi-direct", requires: []string{"source.hosts", "source.devices", "source.initiator"},
		existing: true, staying: true, protocol: "iscsi", shared: true,
	},
	{
		name: "rbd", requires: []string{"source.name", "source.hosts"}, protocol: "rbd", shared: true,
		filled: true,
		imagesByHand: "libvirt can't upload images to Ceph. Create the virtfleet_image in a pool of type dir, fs or netfs, " +
			"and a virtfleet_volume in this pool with image and clone = \"full\"",
	},
	{
		name: "gluster", requires: []string{"source.hosts"}, nameIsSource: true,
		anyFormat: true, existing: true, protocol: "gluster", shared: true, sameFiles: true,
	},
	{
		name: "zfs", nameIsSource: true, manyDevices: true, devices: true, ownDirectory: true, images: true,
		copiesByHand: "Create it with \"zfs create -V\", copy the data", removable: true, removesData: true,
	},
	{name: "scsi", requires: []string{"target.path", "source.adapter"}, devices: true, existing: true, staying: true},
	{name: "mpath", requires: []string{"target.path"}, devices: true, existing: true, staying: true, shared: true},
}

// otherKinds are types of pools that hosts may have and that can't be declared.
var otherKinds = []kind{{name: "sheepdog", protocol: "sheepdog"}, {name: "vstorage", sameFiles: true}}

// kindOf returns the kind of a type of pools, the zero kind for an unknown type.
func kindOf(poolType string) kind {
	for _, all := range [][]kind{kinds, otherKinds} {
		if i := slices.IndexFunc(all, func(k kind) bool { return k.name == poolType }); i >= 0 {
			return all[i]
		}
	}
	return kind{}
}

func (p Pool) kind() kind { return kindOf(p.Type) }

func typesThat(is func(kind) bool) (names []string) {
	for _, k := range kinds {
		if is(k) {
			names = append(names, k.name)
		}
	}
	return names
}

// PoolTypes are the types that a storage pool may have.
func PoolTypes() []string { return typesThat(func(kind) bool { return true }) }

// Requires returns the attributes that libvirt requires of a new pool of this type: "target.path", "source.hosts".
func Requires(poolType string) []string { return kindOf(poolType).requires }

// FilePool reports whether the volumes of a pool of this type are files below its path.
func FilePool(poolType string) bool { return kindOf(poolType).files }

// VolumePath returns the path that libvirt gives a volume of the pool: that of a file, or "<pool>/<image>" of an RBD
// image. It is "" in pools of other types, in which no VM creates disks of its own.
func (p Pool) VolumePath(name string) string {
	switch {
	case p.Directory() != "":
		return path.Join(p.Directory(), name)
	case p.Type == "rbd" && p.SourceName != nil:
		return *p.SourceName + "/" + name
	default:
		return ""
	}
}

// SharedType reports whether pools of this type show the same volumes on every host.
func SharedType(poolType string) bool { return kindOf(poolType).shared }

// SameFiles reports whether a path in pools of this type is the same file on every host.
func SameFiles(poolType string) bool { return kindOf(poolType).sameFiles }

// Protocol returns the protocol of network disks on volumes of a pool of this type, "" if these are files or devices of
// the host.
func Protocol(poolType string) string { return kindOf(poolType).protocol }

// BuildsByDefault reports whether the storage of a new pool of this type is created unless the configuration says
// otherwise.
func BuildsByDefault(poolType string) bool { return kindOf(poolType).buildsDirectory }

// LosesVolumes reports whether a host can't use the volumes of the pool while the pool is stopped: libvirt unmounts it,
// deactivates the volume group, logs out of the target, or removes the virtual adapter.
func (p Pool) LosesVolumes() bool {
	return p.kind().losesVolumes ||
		p.Type == "scsi" && p.Adapter != nil && p.Adapter.Type != nil && *p.Adapter.Type == "fc_host"
}
