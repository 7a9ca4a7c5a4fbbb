package libvirt

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// DiskError is the kind of the last error of a disk.
type DiskError string

// The kinds of disk errors that libvirt tells apart.
const (
	DiskErrorUnspecified DiskError = "Unspecified"
	DiskErrorNoSpace     DiskError = "NoSpace"
)

// DiskErrors returns the disks of a running domain with an error that paused it, by target ("vda"); empty if there are
// none (virDomainGetDiskErrors). It returns ErrOperationInvalid for a domain that is off.
func (h *Host) DiskErrors(ctx context.Context, uuid string) (map[string]DiskError, error) {
	s := monitorCall("reading the disk errors of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (map[string]DiskError, error) {
		c.countCall("virDomainGetDiskErrors")
		list, err := d.GetDiskErrors(0)
		if err != nil {
			return nil, err
		}
		failed := map[string]DiskError{}
		for _, e := range list {
			switch {
			case e.Disk == "": // The binding returns an entry for every disk; those without an error are empty.
			case e.Error == golibvirt.DOMAIN_DISK_ERROR_NO_SPACE:
				failed[e.Disk] = DiskErrorNoSpace
			case e.Error != golibvirt.DOMAIN_DISK_ERROR_NONE:
				failed[e.Disk] = DiskErrorUnspecified
			}
		}
		return failed, nil
	})
}

// BlockInfo is the size of a disk's source, in bytes.
type BlockInfo struct {
	// Capacity is the size that the guest sees, Allocation how much of it is used, Physical what the image occupies on its
	// host.
	Capacity, Allocation, Physical uint64
	// Err says why the host couldn't report the sizes, which are 0 then: ErrUnsupported for storage that libvirt can't
	// open while the domain is off, ErrInternal or another kind if the source doesn't exist or can't be read.
	Err error
}

// BlockInfos reads the sources of a domain's disks, by target ("vda") (virDomainGetBlockInfo). If the domain is off,
// libvirt opens the file as the user that QEMU runs as; if it runs, libvirt asks the hypervisor. Neither proves that a
// start would work: the file's content isn't checked, and a hypervisor keeps a file open even after it was removed.
func (h *Host) BlockInfos(ctx context.Context, uuid string, targets []string) (map[string]BlockInfo, error) {
	s := monitorCall("reading the disks of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (map[string]BlockInfo, error) {
		infos := make(map[string]BlockInfo, len(targets))
		var mu sync.Mutex
		var calls errgroup.Group
		calls.SetLimit(pipelined)
		for _, target := range targets {
			calls.Go(func() error {
				c.countCall("virDomainGetBlockInfo")
				var info BlockInfo
				found, err := d.GetBlockInfo(target, 0)
				switch {
				case err == nil:
					info = BlockInfo{Capacity: found.Capacity, Allocation: found.Allocation, Physical: found.Physical}
				case c.isLost() || codeOf(err) == golibvirt.ERR_NO_DOMAIN:
					return err
				default:
					info.Err = h.wrap(s, err, false)
				}
				mu.Lock()
				defer mu.Unlock()
				infos[target] = info
				return nil
			})
		}
		return infos, calls.Wait()
	})
}

// PeekDisk opens the source of a disk in raw format again, whether the domain runs or not (virDomainBlockPeek).
func (h *Host) PeekDisk(ctx context.Context, uuid, target string) error {
	s := monitorCall("opening disk " + target + " of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainBlockPeek", func(d *golibvirt.Domain) error {
		_, err := d.BlockPeek(target, 0, 1, 0)
		return err
	})
}

// GuestVCPUs is what the guest agent reports about the guest's virtual CPUs.
type GuestVCPUs struct {
	// Present is the number of virtual CPUs that the guest sees, Online how many of them it uses.
	Present, Online int
}

// GuestVCPUs asks the guest agent for the guest's virtual CPUs (virDomainGetVcpusFlags). virDomainGetGuestVcpus would
// report more, but the binding can't read its answer for a guest that can take none of them offline.
func (h *Host) GuestVCPUs(ctx context.Context, uuid string) (*GuestVCPUs, error) {
	s := agentCall("asking the guest agent for the virtual CPUs of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (*GuestVCPUs, error) {
		c.countCall("virDomainGetVcpusFlags")
		online, err := d.GetVcpusFlags(golibvirt.DOMAIN_VCPU_GUEST)
		if err != nil {
			return nil, err
		}
		c.countCall("virDomainGetVcpusFlags")
		present, err := d.GetVcpusFlags(golibvirt.DOMAIN_VCPU_GUEST | golibvirt.DOMAIN_VCPU_MAXIMUM)
		return &GuestVCPUs{Present: int(present), Online: int(online)}, err
	})
}
