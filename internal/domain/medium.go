package domain

import (
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// MediumKey is the key of the CD-ROM drive with the first-boot medium: of the drive among the disks of a definition,
// and of the medium among the own disks. Users' disks can't have it.
const MediumKey = "cloud-init"

// withMedium returns the disks that s declares, of a VM that has those of have, with the drive of the first-boot
// medium. A drive that is there is left as it is unless a medium is declared, and stays when its medium goes: a running
// VM can't lose it. Where disks aren't declared, declaring a medium leaves them as they are.
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

// mediumBus is the bus of the drive: that of a virtio SCSI controller where there is one, which every new VM has. The
// kernels that distributions build for clouds have its driver; Debian's has none for SATA.
func (d *Definition) mediumBus() string {
	if slices.ContainsFunc(d.controllers("scsi"), func(e *etree.Element) bool {
		return strings.HasPrefix(attr(e, "model"), "virtio-")
	}) {
		return "scsi"
	}
	return d.defaultBus("cdrom")
}
