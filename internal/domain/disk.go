package domain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// disks are the disks and drives.
var disks = devices[Disk]{
	kind: diskKind, rules: diskRules,
	texts:      map[string]func(a, b string) bool{"disks.*.cache": sameCache, "disks.*.serial": sameTrimmed},
	in:         func(s *Spec) *map[string]Disk { return &s.Disks },
	attributes: diskRows, values: func(d *Disk) *Values { return &d.Values },

	readOne: readDisk, same: sameDisk,
	// Equal targets aren't enough: a staged change may have given the target to another disk.
	sameInLive: func(a, b Disk) bool {
		return a.Target != "" && a.Target == b.Target &&
			(sameSource(a.Source, b.Source) || a.removable() && b.removable())
	},
	patch: (*Definition).patchDisk, create: (*Definition).newDisk, bootableFirst: true,
	removed: removedDiskRow, added: newDiskRow, compare: compareDisks, validate: validateDisks,
	normal: func(d Disk) Disk {
		if d.Serial != nil {
			d.Serial = new(strings.TrimSpace(*d.Serial))
		}
		return d
	},
	complete: func(d Disk) Disk {
		d.BootOrder = cmp.Or(d.BootOrder, new(0))
		d.Cache = cmp.Or(d.Cache, "default")
		d.Serial = cmp.Or(d.Serial, new(""))
		return d
	},
	order:  func(d Disk) *int { return d.BootOrder },
	update: updateDisk, prepare: prepareDisk,
}

// noExchange says why a running disk keeps its source.
const noExchange = "Exchanging the disk under a running guest would corrupt its data."

var diskRules = map[string]rule{
	"disks.* added":   {effect: live, step: Attach, why: "The disk is plugged into the running VM."},
	"disks.* removed": {effect: live, step: Detach, why: "The disk is unplugged from the running VM."},
	"disks.* renamed": {effect: live, why: onlyRenamed},
	"disks.* medium":  {effect: live, step: ChangeMedium, why: "The medium is changed in the running VM."},
	"disks.* access": {
		effect: restart, why: "A medium's format and options can't change while the VM runs.",
	},
	"disks.* medium on usb": {
		effect: restart, why: "QEMU can't exchange the medium of a drive on usb.",
	},
	"disks.* drive": {
		effect: restart, why: "Drives can't be plugged into or out of a running VM; their media can.",
	},
	"disks.* cold bus": {
		effect: restart, why: "Only disks on virtio, scsi and usb can be plugged into a running VM.",
	},
	"disks.* no slot": {effect: restart, why: "The running VM has no free PCI slot for it."},
	"disks.* no bus":  {effect: restart, why: "The running VM has no USB controller."},
	"disks.* boot order": {
		effect: restart, why: "A running VM accepts a new disk only with a boot order that is free.",
	},
	"disks.*.source":         {effect: restart, why: noExchange},
	"disks.*.source shifted": {effect: restart, why: noExchange},
	"disks.*.device":         {effect: restart, why: "A device of another kind can't replace one in use."},
	"disks.*.bus":            {effect: restart, why: "The disk would have to be removed from the running guest."},
	"disks.*.format":         {effect: restart, why: "The disk is opened in its format when the VM starts."},
	"disks.*.cache":          {effect: restart, why: "The disk is opened with its cache mode when the VM starts."},
	"disks.*.serial":         {effect: restart, why: "The guest reads the serial number when it finds the disk."},
	"disks.*.read_only":      {effect: restart, why: "The guest learns that a disk is read-only when it finds it."},
	"disks.*.boot_order":     {effect: restart, why: "The boot order is read when the VM starts."},
}

// readDisks reads all <disk> elements, including those that can't be declared.
func (d *Definition) readDisks() map[string]Disk { return readDevices(d, diskKind, readDisk) }

func readDisk(e *etree.Element) Disk {
	driver, target := child(e, "driver"), child(e, "target")
	device := cmp.Or(attr(e, "device"), "disk")
	read := Disk{
		Source:    readSource(e),
		Device:    device,
		Bus:       cmp.Or(attr(target, "bus"), busOf(attr(target, "dev"))),
		Format:    attr(driver, "type"),
		Cache:     attr(driver, "cache"),
		ReadOnly:  new(device == "cdrom" || child(e, "readonly") != nil),
		BootOrder: bootOrder(e),
		Target:    attr(target, "dev"),
		Backing:   readBackingSources(e),
		Values:    diskRows.readValues(e),
	}
	if serial := text(child(e, "serial")); serial != "" {
		read.Serial = &serial
	}
	if child(e, "shareable") != nil && !*read.ReadOnly && read.Cache == "" {
		read.Cache = "none" // libvirt changes the value to this when the VM starts.
	}
	if read.removable() && read.Source.isZero() && read.Format == "" {
		read.Format = "raw" // libvirt's default, which it omits from a running VM's empty drive.
	}
	if child(e, "transient") != nil {
		read = read.withoutTransientOverlay(child(e, "backingStore"))
	}
	return read
}

// withoutTransientOverlay returns the disk that is defined for a transient disk of a running VM: while the VM runs,
// libvirt puts an overlay with what the guest writes on top of the image.
func (d Disk) withoutTransientOverlay(backing *etree.Element) Disk {
	if len(d.Backing) > 0 && strings.HasPrefix(d.Source.File, d.Backing[0].File+".TRANSIENT") {
		d.Source, d.Backing = d.Backing[0], d.Backing[1:]
		d.Format = attr(child(backing, "format"), "type")
	}
	return d
}

// serialDiffers reports whether the serial numbers differ. No serial number and "" are the same.
func serialDiffers(have, want *string) bool {
	return want != nil && pick(have, nil, "") != *want
}

// removable reports whether the disk is a drive with a removable medium.
func (d Disk) removable() bool {
	return d.Device == "cdrom" || d.Device == "floppy"
}

// keepsSource reports whether want declares no source and so keeps that of d. A disk must have a source, while a drive
// without a source is empty.
func (d Disk) keepsSource(want Disk) bool {
	d.Device = cmp.Or(want.Device, d.Device)
	return want.Source.isZero() && !d.removable()
}

// sameDisk reports whether a disk declared under another key is the existing one.
func sameDisk(have, want Disk) bool {
	if want.Device != "" && want.Device != have.Device {
		return false
	}
	if want.Source.isZero() && !want.removable() {
		return false
	}
	return sameSource(have.Source, want.Source)
}

// patchDisk changes what differs.
func (d *Definition) patchDisk(e *etree.Element, path string, want Disk, gone map[string]bool) error {
	have := readDisk(e)
	if cmp.Or(want.Device, have.Device) == "cdrom" && !pick(want.ReadOnly, nil, true) {
		return Problem{path + ".read_only", "A CD-ROM is read-only."}
	}
	switch source := want.Source; {
	case sameSource(have.Source, source), have.keepsSource(want):
	case source.Other != "":
		return undeclarable(path, source.Other)
	default:
		applySource(e, source)
		if want.Format == "" && !have.Source.reaches(source) {
			want.Format = formatOf(source) // The old image's format says nothing about the new image.
		}
	}
	if want.Device != "" && want.Device != have.Device {
		setAttr(e, "device", want.Device)
		if want.Device == "cdrom" {
			ensure(e, "readonly")
		}
	}
	if want.Bus != "" && want.Bus != have.Bus {
		if err := d.changeBus(e, path, want.Bus, gone); err != nil {
			return err
		}
	}
	driver := child(e, "driver")
	if driver == nil {
		driver = element("driver", "name", "qemu")
		if want.Format != "" && want.Format != have.Format || want.Cache != "" && want.Cache != "default" {
			e.InsertChildAt(0, driver)
		}
	}
	if want.Format != "" && want.Format != have.Format {
		setAttr(driver, "type", want.Format)
	}
	if want.Cache != "" && !sameCache(want.Cache, have.Cache) {
		setAttr(driver, "cache", want.Cache)
		if want.Cache != "none" && want.Cache != "directsync" && attr(driver, "io") == "native" {
			setAttr(driver, "io", "") // Native I/O requires a cache mode that bypasses the host's cache.
		}
	}
	if serialDiffers(have.Serial, want.Serial) {
		setChild(e, "serial", *want.Serial, "target", "backingStore", "source", "driver")
	}
	if differs(have.ReadOnly, want.ReadOnly) {
		dropChildren(e, "readonly")
		if *want.ReadOnly {
			ensure(e, "readonly")
		}
	}
	setBootOrder(e, want.BootOrder)
	if err := want.applyRows(e, path); err != nil {
		return err
	}
	return newMisfit(have, readDisk(e), path)
}

// newMisfit returns an error if a change causes a combination that doesn't fit together. A combination that was wrong
// before the change is no error.
func newMisfit(before, after Disk, path string) error {
	if after.isEmptyUSB() && !before.isEmptyUSB() {
		return Problem{path + ".bus", "A drive on usb can't be empty: QEMU doesn't start with it. Give it a medium, remove " +
			"it, or choose the bus scsi or sata."}
	}
	was, is := &checker{}, &checker{}
	before.checkCombination(was, path)
	after.checkCombination(is, path)
	for _, problem := range is.problems {
		if !slices.Contains(was.problems, problem) {
			return problem
		}
	}
	return nil
}

// busOfDisk returns the bus that a disk needs a place on.
func busOfDisk(e *etree.Element) bus {
	switch on := readDisk(e).Bus; {
	case placedOnPCI(on):
		return busPCI
	case on == string(busUSB):
		return busUSB
	default:
		return busNone
	}
}

// isEmptyUSB reports whether the disk is a drive on USB without a medium.
func (d Disk) isEmptyUSB() bool { return d.Bus == string(busUSB) && d.Source.isZero() }

// virtioOnly are attributes of <driver> that libvirt accepts for virtio disks only.
var virtioOnly = []string{
	"ioeventfd", "event_idx", "queues", "queue_size", "iothread", "iommu", "ats", "packed", "page_per_vq",
}

// changeBus moves a disk to another bus. The disk gets a new name, and its address from libvirt.
func (d *Definition) changeBus(e *etree.Element, path, bus string, gone map[string]bool) error {
	dropChildren(e, "address")
	dev := d.freeTarget(bus, gone, e)
	if dev == "" {
		return Problem{path + ".bus", "The bus " + bus + " has no place left for another disk."}
	}
	target := ensure(e, "target")
	setAttr(target, "dev", dev)
	setAttr(target, "bus", bus)
	for _, key := range []string{"tray", "removable", "rotation_rate"} {
		setAttr(target, key, "")
	}
	if bus != "virtio" {
		setAttr(e, "model", "")
		if driver := child(e, "driver"); driver != nil {
			for _, key := range virtioOnly {
				setAttr(driver, key, "")
			}
			dropChildren(driver, "iothreads")
		}
	}
	if bus != "scsi" {
		dropChildren(e, "vendor", "product")
	}
	d.ensureBus(bus)
	return nil
}

// hotPluggable reports whether the disk can be plugged in and unplugged while the VM runs.
func (d Disk) hotPluggable() bool {
	return slices.Contains([]string{"virtio", "scsi", "usb"}, d.Bus)
}

// elsewhere reports whether a source moves to or from a running disk that stays: keys have shifted. Until a restart,
// the running disks stay as they are. Otherwise the guest would lose a disk that is still declared, or get one twice.
func (c *classifier) elsewhere(source DiskSource) bool {
	for key, old := range c.pairs {
		have, want := c.have.Disks[old], c.want.Disks[key]
		is, will := SameData(have.Source, source), SameData(want.Source, source)
		if is != will && !have.removable() && !have.keepsSource(want) {
			return true
		}
	}
	return false
}

// removedDiskRow returns the row for a disk that is removed.
func removedDiskRow(c *classifier, disk Disk) string {
	switch {
	case !disk.removable() && c.elsewhere(disk.Source):
		return "disks.*.source shifted"
	case disk.removable():
		return "disks.* drive"
	case !disk.hotPluggable():
		return "disks.* cold bus"
	case placedOnPCI(disk.Bus):
		c.freeSlot()
	}
	return "disks.* removed"
}

// newDiskRow returns the row for a disk that is added.
func newDiskRow(c *classifier, disk Disk) string {
	if !disk.removable() && c.elsewhere(disk.Source) {
		return "disks.*.source shifted"
	}
	disk.Bus = cmp.Or(disk.Bus, map[string]string{"": "virtio", "disk": "virtio", "lun": "scsi"}[disk.Device])
	if disk.Bus == "scsi" && !slices.ContainsFunc(slices.Collect(maps.Values(c.have.Disks)), func(d Disk) bool {
		return d.Bus == "scsi"
	}) && !c.takeSlot() {
		return "disks.* no slot" // The controller, which is added first, may need the slot.
	}
	switch {
	case disk.removable():
		return "disks.* drive"
	case !disk.hotPluggable():
		return "disks.* cold bus"
	case placedOnPCI(disk.Bus) && !c.takeSlot():
		return "disks.* no slot"
	case disk.Bus == string(busUSB) && !c.hasBus(busUSB):
		return "disks.* no bus"
	case !c.bootOrderFits(disk.BootOrder):
		return "disks.* boot order"
	default:
		return "disks.* added"
	}
}

// compareDisks classifies the differences of one disk.
func compareDisks(c *classifier, key string, have, want Disk) {
	path := "disks." + key
	medium := "disks.* medium"
	switch {
	case !have.removable() || want.Device != "" && want.Device != have.Device:
		medium = ""
	case have.Source.sameLocation(want.Source):
		medium = "disks.* access"
	case have.Bus == string(busUSB): // QEMU presents it as a disk that isn't removable.
		medium = "disks.* medium on usb"
	}
	if !sameSource(have.Source, want.Source) && !have.keepsSource(want) {
		attribute := want.Source
		if attribute.isZero() {
			attribute = have.Source
		}
		c.add(path+"."+attribute.kind(), cmp.Or(medium, "disks.*.source"), key)
	}
	if want.Format != "" && want.Format != have.Format {
		c.add(path+".format", cmp.Or(medium, "disks.*.format"), key)
	}
	for _, plain := range []struct {
		name   string
		differ bool
	}{
		{"device", want.Device != "" && want.Device != have.Device},
		{"bus", want.Bus != "" && want.Bus != have.Bus},
		{"cache", want.Cache != "" && !sameCache(want.Cache, have.Cache)},
		{"serial", serialDiffers(have.Serial, want.Serial)},
		{"read_only", differs(have.ReadOnly, want.ReadOnly)},
		{"boot_order", bootOrderDiffers(have.BootOrder, want.BootOrder)},
	} {
		if plain.differ {
			c.add(path+"."+plain.name, "disks.*."+plain.name, key)
		}
	}
}

// updateDisk changes the medium of a running VM's drive.
func updateDisk(p *stepper, e *etree.Element, key string, want Disk) {
	if !sameSource(readDisk(e).Source, want.Source) {
		applySource(e, want.Source)
	}
	if after := find(p.persistent, diskKind, nil, key); after != nil {
		setAttr(ensure(e, "driver"), "type", attr(child(after, "driver"), "type"))
	}
}

// prepareDisk adds a step for the controller of a SCSI disk. libvirt would otherwise add one of its own choice, the
// oldest model.
func prepareDisk(p *stepper, path string, e *etree.Element) {
	if readDisk(e).Bus == "scsi" && len(p.live.controllers("scsi")) == 0 {
		p.step(Step{Kind: Attach, Path: path, XML: render(scsiController())})
	}
}
