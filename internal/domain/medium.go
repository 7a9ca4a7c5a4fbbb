package domain

import (
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// MediumKey is the key of the CD-ROM drive with the first-boot medium: of the drive among the disks of a definition,
// and of the medium among the own disks. Disks of users can't have this key.
const MediumKey = "cloud-init"

// withMedium returns the disks that s declares, with the drive of the first-boot medium. have are the VM's current
// disks. An existing drive changes only if a medium is declared. The drive stays when its medium is removed, because a
// running VM can't lose it. If s declares a medium but no disks, the other disks stay as they are.
func (s Spec) withMedium(have map[string]Disk) map[string]Disk {
	drive, exists := have[MediumKey]
	if _, declared := s.Disks[MediumKey]; declared || s.Disks == nil && s.Medium == nil || s.Medium == nil && !exists {
		return s.Disks
	}
	disks := maps.Clone(s.Disks)
	if s.Disks == nil {
		disks = maps.Clone(have)
	}
	if disks == nil {
		disks = map[string]Disk{}
	}
	switch {
	case s.Medium == nil:
		disks[MediumKey] = drive
	case !s.Medium.isZero():
		disks[MediumKey] = Disk{Source: *s.Medium, Device: "cdrom", Format: "raw", ReadOnly: new(true)}
	case exists:
		disks[MediumKey] = Disk{Device: "cdrom"}
	}
	return disks
}

// mediumBus returns the bus of the drive: SCSI if the VM has a virtio SCSI controller, as every new VM does. The
// kernels that distributions build for clouds have the driver for it; Debian's has no driver for SATA.
func (d *Definition) mediumBus() string {
	if slices.ContainsFunc(d.controllers("scsi"), func(e *etree.Element) bool {
		return strings.HasPrefix(attr(e, "model"), "virtio-")
	}) {
		return "scsi"
	}
	return d.defaultBus("cdrom")
}
