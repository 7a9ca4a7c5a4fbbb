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

// mediumBus returns the bus of a new drive. A guest that boots from SATA or IDE may have no driver for virtio, such as
// Windows when it is installed, so the drive is on SATA or IDE too. Otherwise it is on SCSI if the VM has a virtio SCSI
// controller, as every new VM does: kernels that distributions build for clouds have the driver for it; Debian's has
// none for SATA.
func (d *Definition) mediumBus() string {
	virtio := slices.ContainsFunc(d.controllers("scsi"), func(e *etree.Element) bool {
		return strings.HasPrefix(attr(e, "model"), "virtio-")
	})
	if bus := d.bootBus(); virtio && bus != "sata" && bus != "ide" {
		return "scsi"
	}
	bus := d.defaultBus("cdrom")
	if bus == "ide" && d.freeTarget(bus, nil, nil) == "" {
		return "sata" // IDE has places for four. A guest without virtio drivers most likely has one for AHCI.
	}
	return bus
}

// bootBus returns the bus of the disk that the VM boots from: the first in the boot order, or else the first one. It
// returns "" if the VM has no disk.
func (d *Definition) bootBus() string {
	var boots *Disk
	for _, e := range d.devices("disk") {
		disk := readDisk(e)
		if disk.Device != "disk" {
			continue
		}
		if boots == nil || pick(disk.BootOrder, nil, 1<<30) < pick(boots.BootOrder, nil, 1<<30) {
			boots = &disk
		}
	}
	if boots == nil {
		return ""
	}
	return boots.Bus
}
