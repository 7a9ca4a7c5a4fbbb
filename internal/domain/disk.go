package domain

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// readDisks reads all <disk> elements, whatever they are.
func (d *Definition) readDisks() map[string]Disk {
	disks := map[string]Disk{}
	for _, have := range d.keyed(diskKind, d.Metadata().Devices) {
		disks[have.key] = readDisk(have.element)
	}
	return disks
}

func readDisk(e *etree.Element) Disk {
	driver, target := child(e, "driver"), child(e, "target")
	device := cmp.Or(attr(e, "device"), "disk")
	read := Disk{
		Source:    readSource(e),
		Device:    device,
		Bus:       cmp.Or(attr(target, "bus"), busOf(attr(target, "dev"))),
		Format:    attr(driver, "type"),
		Cache:     attr(driver, "cache"),
		Serial:    text(child(e, "serial")),
		ReadOnly:  new(device == "cdrom" || child(e, "readonly") != nil),
		BootOrder: bootOrder(e),
		Target:    attr(target, "dev"),
	}
	if read.removable() && read.Source.isZero() && read.Format == "" {
		read.Format = "raw" // libvirt's default, which it leaves out of a running VM's empty drive.
	}
	return read
}

// removable says whether the disk is a drive whose medium can be taken out.
func (d Disk) removable() bool {
	return d.Device == "cdrom" || d.Device == "floppy"
}

// sameDisk says whether a disk declared under another key is the one that is there.
func sameDisk(have, want Disk) bool {
	if want.Device != "" && want.Device != have.Device {
		return false
	}
	if want.Source.isZero() && !want.removable() {
		return false
	}
	return sameSource(have.Source, want.Source)
}

// applyDisks makes the disks the declared ones; nil leaves them alone.
func (d *Definition) applyDisks(want map[string]Disk) error {
	if want == nil {
		return nil
	}
	have := d.keyed(diskKind, d.Metadata().Devices)
	pairs := pair(d.readDisks(), want, sameDisk)
	keys := inverse(pairs)
	wanted := map[*etree.Element]string{}
	var problems []error
	gone := map[string]bool{}
	for _, disk := range have {
		key, stays := keys[disk.key]
		if !stays {
			gone[attr(child(disk.element, "target"), "dev")] = true
			drop(disk.element)
			continue
		}
		wanted[disk.element] = key
	}
	for _, disk := range have {
		if key, stays := keys[disk.key]; stays {
			problems = append(problems, d.patchDisk(disk.element, diskKind.path+"."+key, want[key], gone))
		}
	}
	for _, key := range d.newDisks(want, pairs) {
		e, err := d.newDisk(key, want[key], gone)
		problems = append(problems, err)
		if err == nil {
			wanted[e] = key
		}
	}
	return errors.Join(append(problems, d.applyKeys(diskKind, wanted))...)
}

// patchDisk changes what differs.
func (d *Definition) patchDisk(e *etree.Element, path string, want Disk, gone map[string]bool) error {
	have := readDisk(e)
	switch source := want.Source; {
	case sameSource(have.Source, source), source.isZero() && !have.removable():
	case source.Other != "":
		return Problem{path, "A source of the kind " + source.Other + " can be kept, but not declared."}
	default:
		applySource(e, source)
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
			setAttr(driver, "io", "") // Native I/O needs a cache mode that bypasses the host's.
		}
	}
	if want.Serial != "" {
		setChild(e, "serial", want.Serial)
	}
	if differs(have.ReadOnly, want.ReadOnly) {
		dropChildren(e, "readonly")
		if *want.ReadOnly {
			ensure(e, "readonly")
		}
	}
	setBootOrder(e, want.BootOrder)
	return newMisfit(have, readDisk(e), path)
}

// newMisfit says what doesn't fit together after a change. What didn't before is somebody else's concern.
func newMisfit(before, after Disk, path string) error {
	was, is := &checker{}, &checker{}
	before.combination(was, path)
	after.combination(is, path)
	for _, problem := range is.problems {
		if !slices.Contains(was.problems, problem) {
			return problem
		}
	}
	return nil
}

// sameCache compares by meaning.
func sameCache(a, b string) bool {
	return cmp.Or(a, "default") == cmp.Or(b, "default")
}

// virtioOnly are attributes of <driver> that libvirt accepts for virtio disks only.
var virtioOnly = []string{
	"ioeventfd", "event_idx", "queues", "queue_size", "iothread", "iommu", "ats", "packed", "page_per_vq",
}

// changeBus moves a disk to another bus: a new name, and whatever address libvirt gives it.
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

// hotPluggable says whether the disk can be plugged in and out while the VM runs.
func (d Disk) hotPluggable() bool {
	return slices.Contains([]string{"virtio", "scsi", "usb"}, d.Bus)
}

// disks classifies disks that go, stay and come, in this order: a disk that goes leaves its slot to one that comes.
func (c *classifier) disks() {
	if c.want.Disks == nil {
		return
	}
	pairs := pair(c.have.Disks, c.want.Disks, sameDisk)
	stay := inverse(pairs)
	for _, key := range sortedKeys(c.have.Disks) {
		if _, ok := stay[key]; ok {
			continue
		}
		disk := c.have.Disks[key]
		row := "disks.* removed"
		switch {
		case disk.removable():
			row = "disks.* drive"
		case !disk.hotPluggable():
			row = "disks.* cold bus"
		case placedOnPCI(disk.Bus):
			c.freeSlot()
		}
		c.add("disks."+key, row, key)
	}
	for _, key := range sortedKeys(c.want.Disks) {
		if old, ok := pairs[key]; ok {
			if old != key {
				c.add("disks."+key, "disks.* renamed", key)
			}
			c.disk(key, c.have.Disks[old], c.want.Disks[key])
		}
	}
	for _, key := range sortedKeys(c.want.Disks) {
		if _, ok := pairs[key]; !ok {
			c.add("disks."+key, c.newDiskRow(c.want.Disks[key]), key)
		}
	}
}

// newDiskRow is the row for a disk that comes.
func (c *classifier) newDiskRow(disk Disk) string {
	disk.Bus = cmp.Or(disk.Bus, map[string]string{"": "virtio", "disk": "virtio", "lun": "scsi"}[disk.Device])
	if disk.Bus == "scsi" && !slices.ContainsFunc(slices.Collect(maps.Values(c.have.Disks)), func(d Disk) bool {
		return d.Bus == "scsi"
	}) && !c.takeSlot() {
		return "disks.* no slot" // Maybe for the controller that comes first.
	}
	switch {
	case disk.removable():
		return "disks.* drive"
	case !disk.hotPluggable():
		return "disks.* cold bus"
	case placedOnPCI(disk.Bus) && !c.takeSlot():
		return "disks.* no slot"
	case !c.bootOrderFits(disk.BootOrder):
		return "disks.* boot order"
	default:
		return "disks.* added"
	}
}

// disk classifies the differences of one disk.
func (c *classifier) disk(key string, have, want Disk) {
	path := "disks." + key
	medium := have.removable() && (want.Device == "" || want.Device == have.Device)
	if !sameSource(have.Source, want.Source) && (medium || !want.Source.isZero()) {
		row := "disks.*.source"
		if medium {
			row = "disks.* medium"
		}
		attribute := want.Source
		if attribute.isZero() {
			attribute = have.Source
		}
		c.add(path+"."+attribute.kind(), row, key)
	}
	if want.Format != "" && want.Format != have.Format {
		row := "disks.*.format"
		if medium {
			row = "disks.* medium"
		}
		c.add(path+".format", row, key)
	}
	for _, plain := range []struct {
		name   string
		differ bool
	}{
		{"device", want.Device != "" && want.Device != have.Device},
		{"bus", want.Bus != "" && want.Bus != have.Bus},
		{"cache", want.Cache != "" && !sameCache(want.Cache, have.Cache)},
		{"serial", want.Serial != "" && want.Serial != have.Serial},
		{"read_only", differs(have.ReadOnly, want.ReadOnly)},
		{"boot_order", bootOrderDiffers(have.BootOrder, want.BootOrder)},
	} {
		if plain.differ {
			c.add(path+"."+plain.name, "disks.*."+plain.name, key)
		}
	}
}
