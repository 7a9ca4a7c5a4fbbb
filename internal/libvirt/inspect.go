package libvirt

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// DiskError says what kind of error a disk had last.
type DiskError string

// The kinds of disk errors that libvirt tells apart.
const (
	DiskErrorUnspecified DiskError = "Unspecified"
	DiskErrorNoSpace     DiskError = "NoSpace"
)

// DiskErrors gives the disks of a running domain that have an error which stopped it, by target ("vda"); empty: none
// has (virDomainGetDiskErrors). Of a domain that is off it is ErrOperationInvalid.
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
			case e.Disk == "": // The binding returns a place for every disk, those without an error empty.
			case e.Error == golibvirt.DOMAIN_DISK_ERROR_NO_SPACE:
				failed[e.Disk] = DiskErrorNoSpace
			case e.Error != golibvirt.DOMAIN_DISK_ERROR_NONE:
				failed[e.Disk] = DiskErrorUnspecified
			}
		}
		return failed, nil
	})
}

// BlockInfo is how large a disk's source is, in bytes.
type BlockInfo struct {
	// Capacity is what the guest sees, Allocation what is used of it, Physical what the image takes on its host.
	Capacity, Allocation, Physical uint64
	// Err says why the host couldn't tell: ErrUnsupported for storage that libvirt can't open while the domain is off,
	// ErrInternal or another kind where the source isn't there or can't be read. The others are 0 then.
	Err error
}

// BlockInfos reads the sources of a domain's disks, by target ("vda"). libvirt opens the file of a domain that is off,
// as the user that QEMU runs as, and asks the hypervisor about one that runs. Neither proves that a start would work:
// what is in the file isn't looked at, and a hypervisor has it open even when it is gone (virDomainGetBlockInfo).
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

// PeekDisk opens the source of a disk in format raw anew, whether the domain runs or not (virDomainBlockPeek).
func (h *Host) PeekDisk(ctx context.Context, uuid, target string) error {
	s := monitorCall("opening disk " + target + " of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainBlockPeek", func(d *golibvirt.Domain) error {
		_, err := d.BlockPeek(target, 0, 1, 0)
		return err
	})
}

// GuestVCPUs is what the guest agent says of the guest's virtual CPUs.
type GuestVCPUs struct {
	// Present is how many the guest sees, Online how many of them it uses.
	Present, Online int
}

// GuestVCPUs asks the guest agent for the guest's virtual CPUs (virDomainGetVcpusFlags). virDomainGetGuestVcpus would
// tell more, but the binding can't read its answer for a guest that can take none of them offline.
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
