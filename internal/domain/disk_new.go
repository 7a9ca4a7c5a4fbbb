package domain

import (
	"cmp"
	"strings"

	"github.com/beevik/etree"
)

// newDisk adds a disk. Its defaults are those of KubeVirt where every host can be expected to accept them: errors stop
// the guest instead of reaching it, and blocks that the guest frees are freed on the storage. Block devices and network
// disks, which are shared by their nature, bypass the host's cache: with that cache libvirt refuses live migration.
func (d *Definition) newDisk(key string, want Disk, gone map[string]bool) (*etree.Element, error) {
	path := diskKind.path + "." + key
	device := cmp.Or(want.Device, "disk")
	want.Device = device
	if want.Source.Other != "" {
		return nil, undeclarable(path, want.Source.Other)
	}
	if want.Source.isZero() && !want.removable() {
		return nil, Problem{path, "A new disk needs a source."}
	}
	bus := cmp.Or(want.Bus, d.defaultBus(device))
	if key == MediumKey {
		bus = d.mediumBus()
	}
	dev := want.Target
	if dev == "" || busPrefix[bus] == "" || !strings.HasPrefix(dev, busPrefix[bus]) || d.targetTaken(dev) {
		dev = d.freeTarget(bus, gone, nil)
	}
	if dev == "" {
		return nil, Problem{path + ".bus", "The bus " + bus + " has no place left for another disk."}
	}
	e := element("disk", "type", want.Source.kind(), "device", device)
	driver := add(e, "driver", "name", "qemu", "type", cmp.Or(want.Format, formatOf(want.Source)), "cache", want.Cache)
	if !want.removable() {
		if want.Cache == "" && want.Source.kind() != "file" {
			setAttr(driver, "cache", "none")
		}
		setAttr(driver, "error_policy", "stop")
		if want.Source.kind() == "block" && attr(driver, "cache") == "none" {
			setAttr(driver, "io", "native")
		}
		if device == "disk" && !pick(want.ReadOnly, nil, false) {
			setAttr(driver, "discard", "unmap")
		}
	}
	if !want.Source.isZero() {
		applySource(e, want.Source)
	}
	add(e, "target", "dev", dev, "bus", bus)
	setChild(e, "serial", pick(want.Serial, nil, ""))
	if device == "cdrom" || pick(want.ReadOnly, nil, false) {
		add(e, "readonly")
	}
	setBootOrder(e, want.BootOrder)
	diskKind.setAlias(e, key)
	if err := want.applyRows(e, path); err != nil {
		return nil, err
	}
	if err := newMisfit(Disk{}, readDisk(e), path); err != nil {
		return nil, err
	}
	d.ensureBus(bus)
	d.addDevice(e)
	return e, nil
}

// formatOf guesses the format from the file's name. libvirt never probes the format: it assumes raw, which is wrong for
// a qcow2 image.
func formatOf(source DiskSource) string {
	if strings.HasSuffix(source.File, ".qcow2") {
		return "qcow2"
	}
	return "raw"
}
