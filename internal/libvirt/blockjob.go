package libvirt

import (
	"context"
	"encoding/xml"
	"fmt"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// BlockJobType is what a block job does.
type BlockJobType int

// The types of block jobs, numbered as libvirt numbers them.
const (
	// BlockPull copies the content of backing images into the disk's image.
	BlockPull BlockJobType = 1 + iota
	// BlockCopy copies the disk to another image, and can make the domain use that one.
	BlockCopy
	// BlockCommit copies the content of an overlay, which isn't the disk's image, into an image below it.
	BlockCommit
	// BlockActiveCommit copies the content of the disk's image into an image below it, and can make the domain use that
	// one.
	BlockActiveCommit
	// BlockBackup copies the disk as it was at one time, or hands that out to a client. It is part of a Job of the domain.
	BlockBackup
)

// BlockJob is a job that runs on a disk of a domain.
type BlockJob struct {
	// Target is the disk's name in the domain's definition ("vda").
	Target string
	Type   BlockJobType
}

// BlockJobs returns the jobs that run on disks of a running domain: copies, commits, pulls and backups
// (virDomainGetXMLDesc, and virDomainGetBlockJobInfo of each disk). libvirt refuses to migrate a domain with block
// jobs.
func (h *Host) BlockJobs(ctx context.Context, uuid string) ([]BlockJob, error) {
	s := monitorCall("reading the block jobs of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) ([]BlockJob, error) {
		document, err := c.domainXML(d, 0)
		if err != nil || !isLive(document) {
			return nil, err
		}
		var domain struct {
			Disks []device `xml:"devices>disk"`
		}
		if err := xml.Unmarshal([]byte(document), &domain); err != nil {
			return nil, fmt.Errorf("%w: the domain's definition can't be read: %w", ErrInternal, err)
		}
		types := make([]BlockJobType, len(domain.Disks))
		var calls errgroup.Group
		calls.SetLimit(pipelined)
		for i, disk := range domain.Disks {
			calls.Go(func() error {
				c.countCall("virDomainGetBlockJobInfo")
				info, err := d.GetBlockJobInfo(disk.Target.Dev, 0)
				if err == nil {
					types[i] = BlockJobType(info.Type)
				}
				return err
			})
		}
		err = calls.Wait()
		var jobs []BlockJob
		for i, disk := range domain.Disks {
			if types[i] != 0 {
				jobs = append(jobs, BlockJob{Target: disk.Target.Dev, Type: types[i]})
			}
		}
		return jobs, err
	})
}
