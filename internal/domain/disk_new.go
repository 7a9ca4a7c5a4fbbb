package domain

import (
	"cmp"
	"strings"

	"github.com/beevik/etree"
)

// newDisk adds a disk. Defaults are KubeVirt's where a host can be expected to take them: errors stop the guest instead
// of reaching it, freed blocks are freed, and storage that is shared by its nature bypasses the host's cache, without
// which libvirt refuses live migration.
func (d *Definition) newDisk(key string, want Disk, gone map[string]bool) (*etree.Element, error) {
	path := diskKind.path + "." + key
	device := cmp.Or(want.Device, "disk")
	want.Device = device
	if want.Source.Other != "" {
		return nil, Problem{path, "A source of the kind " + want.Source.Other + " can be kept, but not declared."}
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

// formatOf guesses the format from the file's name. libvirt never probes, and takes raw, which a qcow2 image isn't.
func formatOf(source DiskSource) string {
	if strings.HasSuffix(source.File, ".qcow2") {
		return "qcow2"
	}
	return "raw"
}
