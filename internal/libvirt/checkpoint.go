package libvirt

import (
	"context"
	"errors"

	golibvirt "libvirt.org/go/libvirt"
)

// Checkpoint is libvirt's record of a bitmap in a domain's disks, with which an incremental backup finds what has
// changed since.
type Checkpoint struct {
	Name string
	// xml is its definition. It contains the domain's definition with its secrets.
	xml string
}

// Checkpoints returns a domain's checkpoints, each after its parent (virDomainListAllCheckpoints,
// virDomainCheckpointGetXMLDesc). It returns none if libvirt doesn't support checkpoints.
func (h *Host) Checkpoints(ctx context.Context, uuid string) ([]Checkpoint, error) {
	s := readCall("reading the checkpoints of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) ([]Checkpoint, error) {
		c.countCall("virDomainListAllCheckpoints")
		list, err := d.ListAllCheckpoints(golibvirt.DOMAIN_CHECKPOINT_LIST_TOPOLOGICAL)
		if errors.Is(err, golibvirt.ERR_NO_SUPPORT) {
			return nil, nil
		}
		checkpoints := make([]Checkpoint, 0, len(list))
		for i := range list {
			name, nameErr := list[i].GetName()
			c.countCall("virDomainCheckpointGetXMLDesc")
			xml, xmlErr := list[i].GetXMLDesc(golibvirt.DOMAIN_CHECKPOINT_XML_SECURE)
			err = errors.Join(err, nameErr, xmlErr, list[i].Free())
			checkpoints = append(checkpoints, Checkpoint{Name: name, xml: xml})
		}
		return checkpoints, err
	})
}

// RedefineCheckpoint makes known to a domain a checkpoint that it had on another host (virDomainCheckpointCreateXML
// with VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE). Its parent must be known. running says whether the domain runs. Then
// libvirt also checks that the disks have the checkpoint's bitmap, if it can.
func (h *Host) RedefineCheckpoint(ctx context.Context, uuid string, checkpoint Checkpoint, running bool) error {
	s := changeCall("defining checkpoint " + checkpoint.Name + " of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainCheckpointCreateXML", func(d *golibvirt.Domain) error {
		redefine := func(flags golibvirt.DomainCheckpointCreateFlags) error {
			made, err := d.CreateCheckpointXML(checkpoint.xml, golibvirt.DOMAIN_CHECKPOINT_CREATE_REDEFINE|flags)
			if err != nil {
				return err
			}
			return made.Free()
		}
		if !running { // libvirt can't read bitmaps then.
			return redefine(0)
		}
		err := redefine(golibvirt.DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE)
		if errors.Is(err, golibvirt.ERR_INVALID_ARG) { // libvirt before 6.10 doesn't know this flag.
			return redefine(0)
		}
		return err
	})
}
