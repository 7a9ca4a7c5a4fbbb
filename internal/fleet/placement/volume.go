package placement

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// UsedFormat returns the format with which a VM uses the volume at a path, for libvirt.Volume.UsedAs; "" if the VM
// doesn't use it, or if the disk is encrypted. have is the VM's configuration.
func UsedFormat(have *domain.Spec, at string) (format string) {
	for _, disk := range have.Disks {
		if disk.Source.VolumePath() != at && !domain.SameDisk(disk.Source, domain.DiskSource{File: at}, true) {
			continue
		}

		if disk.Values[domain.EncryptionSecret] != "" {
			return ""
		}

		format = cmp.Or(format, disk.Format)
	}

	return format
}

// OwnDiskSource returns the source of a disk on the recorded volume of an own disk, which may not exist yet.
func OwnDiskSource(ctx context.Context, h *inventory.Host, o domain.OwnDisk) (domain.DiskSource, error) {
	if filepath.IsAbs(o.Path) {
		return domain.DiskSource{File: o.Path}, nil
	}

	source, why, err := SourceOf(ctx, h, &libvirt.Volume{Pool: o.Pool, PoolType: "rbd", Name: o.Volume, Path: o.Path})
	if err == nil && why != "" {
		err = fmt.Errorf("%w: %s", inventory.ErrUnsupported, why)
	}

	return source, err
}

// SourceOf returns the source of a disk on a volume: a file, a block device, or an RBD image with the servers and the
// secret of its storage pool. why says why there is none.
func SourceOf(
	ctx context.Context, h *inventory.Host, v *libvirt.Volume,
) (source domain.DiskSource, why string, err error) {
	switch {
	case v.Type == "block":
		return domain.DiskSource{Block: v.Path}, "", nil
	case v.PoolType != "rbd":
		return domain.DiskSource{File: v.Path}, "", nil
	}

	pool, err := h.Conn.StoragePool(ctx, v.Pool)
	if err != nil {
		return source, "", err
	}

	is, err := storage.ReadPool(cmp.Or(pool.LiveXML, pool.XML))
	if err != nil {
		return source, "", err
	}

	image, why := rbdImage(v, is)

	return domain.DiskSource{Network: image}, why, nil
}

// rbdImage returns the network source of an RBD image that is a volume of a pool, or why it has none.
func rbdImage(v *libvirt.Volume, pool *storage.Pool) (image *domain.NetworkSource, why string) {
	image = &domain.NetworkSource{Protocol: "rbd", Name: v.Path, Values: domain.Values{"snapshot": ""}}

	for _, server := range pool.SourceHosts {
		host := server.Name
		if server.Port != nil {
			host = net.JoinHostPort(host, strconv.FormatInt(*server.Port, 10))
		}

		image.Hosts = append(image.Hosts, host)
	}

	if pool.Auth == nil {
		return image, ""
	}

	image.Auth = &domain.SourceAuth{Username: pool.Auth.Username, Secret: pool.Auth.Secret}
	if pool.Auth.Secret == "" {
		return nil, fmt.Sprintf("storage pool %q names its secret by its usage and not by its UUID. Declare the disk with "+
			"network instead of volume, or set source.auth.secret of the pool to the id of a virtfleet_secret", v.Pool)
	}

	return image, ""
}

// UnfitVolume returns why a disk can't use an existing volume by its id or path, or "" if it can.
func UnfitVolume(v *libvirt.Volume, disk domain.Disk) string {
	name := v.Pool + "/" + v.Name

	switch {
	case v.PoolType == "rbd":
		return "" // It is raw. libvirt doesn't know whether its content is encrypted.
	case v.Type == "network" || v.Type == "netdir":
		return fmt.Sprintf("volume %q is in a storage pool of type %s, whose volumes are no files of the host. Declare it "+
			"with network instead of volume: network = { protocol = %q, name = %q, hosts = [...] }, with auth if the pool "+
			"has it", name, v.PoolType, storage.Protocol(v.PoolType), v.Path)
	case disk.Values[domain.EncryptionSecret] != "" && v.Format != "" && !v.Encrypted:
		return fmt.Sprintf("volume %q isn't encrypted, and the disk has encryption: QEMU would not open it. Declare "+
			"encryption of the virtfleet_volume too, or remove it from the disk", name)
	default:
		return DoubtfulFormat(v, disk)
	}
}

// DoubtfulFormat returns why the format that libvirt has found in a volume isn't taken for that of a disk without one,
// or "" if it is. A guest can write anything to a raw volume, also the header of an image on top of any file of the
// host. libvirt would take the volume for that image, and QEMU would open that file for the next VM with the volume. A
// copy of an image is no secret. A user who names a volume .qcow2 says what it is.
func DoubtfulFormat(v *libvirt.Volume, disk domain.Disk) string {
	named := v.Format == "qcow2" && filepath.Ext(v.Path) == ".qcow2"
	if disk.Format != "" || v.Backing == "" || named || storage.IsCopyName(filepath.Base(v.Backing)) {
		return ""
	}

	return fmt.Sprintf("%s begins like a %s image on top of %s, which isn't a copy of a virtfleet_image, and the disk "+
		"has no format. A guest can write that into a raw volume, and QEMU would then open the other file. Set "+
		"format = \"raw\" if the volume is raw, or format = %[2]q if you trust what it says", v.Path, v.Format, v.Backing)
}

// volume is ExistingVolume for the checks of d: in a plan, each volume of a host is read once for all VMs.
func (p *Scheduler) volume(ctx context.Context, h *inventory.Host, d Desired, id string) (*libvirt.Volume, error) {
	read := func(ctx context.Context) (*libvirt.Volume, error) { return ExistingVolume(ctx, h, id) }
	if d.Planned {
		return p.hosts.Volume(ctx, h, id, read)
	}

	return read(ctx)
}

// ExistingVolume returns an existing volume by its path, or by "<pool>/<name>".
func ExistingVolume(ctx context.Context, h *inventory.Host, id string) (*libvirt.Volume, error) {
	if ref := storage.ParseRef(id); ref != nil {
		return h.Conn.PoolVolume(ctx, ref.Pool, ref.Name)
	}

	v, err := h.Conn.VolumeByPath(ctx, id)
	if err == nil {
		v.Path = id // there may be several ways to write the path
	}

	return v, err
}
