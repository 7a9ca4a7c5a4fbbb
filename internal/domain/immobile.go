package domain

import (
	"strings"

	"github.com/beevik/etree"
)

// Devices that a running VM can't take along: those of its host, and those whose state QEMU doesn't migrate.

// ImmobileDevice is a device that a running VM can't take along. Attribute is the attribute that declares it, "" if
// there is none. SomeQEMU says that some versions of QEMU can migrate it.
type ImmobileDevice struct {
	What, Attribute string
	SomeQEMU        bool
}

// readHostDevices reads which hardware of the host the VM uses.
func (m *Mobility) readHostDevices(d *Definition) {
	uses := func(what, attribute string) {
		m.HostDevices = append(m.HostDevices, ImmobileDevice{What: what, Attribute: attribute})
	}
	hostDevices := d.paths(hostDeviceFamily.kind())
	for _, e := range d.devices("hostdev") {
		kind := attr(e, "type")
		if attr(child(e, "teaming"), "type") == "transient" {
			continue
		}
		uses(kind+" "+hostAddress(child(e, "source")), hostDevices[e])
		m.VFIO = m.VFIO || kind == "pci" || kind == "mdev"
	}
	for _, i := range m.Interfaces {
		if (i.Type == "hostdev" || i.Type == "vdpa") && !i.Failover {
			uses("interface "+i.Key, join(interfaceKind.path, i.Key))
			m.VFIO = m.VFIO || i.Type == "hostdev"
		}
	}
	disks := d.paths(diskKind)
	for _, disk := range d.devices("disk") {
		if attr(disk, "type") == "nvme" {
			uses("NVMe disk "+attr(child(disk, "target"), "dev"), disks[disk])
			m.VFIO = true
		}
	}
	for _, e := range d.devices("smartcard") {
		if mode := attr(e, "mode"); mode != "passthrough" {
			uses("smartcard ("+mode+")", "devices.smartcard")
		}
	}
	inputs := d.paths(inputFamily.kind())
	for _, e := range d.devices("input") {
		if attr(e, "type") == "evdev" {
			uses("input device "+attr(child(e, "source"), "dev"), inputs[e])
		}
	}
	switch m.TPM {
	case tpmPassthrough:
		uses("TPM", tpmGroup.Path)
	case tpmExternal:
		uses("TPM in a program of its host", tpmGroup.Path)
	}
}

// readImmobile reads the devices that QEMU marks as unmigratable.
func (m *Mobility) readImmobile(d *Definition) {
	for _, e := range d.devices("sound") {
		switch model := attr(e, "model"); model {
		case "usb", "virtio":
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "sound card of model " + model, Attribute: "devices.sound.model", SomeQEMU: model == "virtio",
			})
		}
	}
	for _, have := range d.keyed(interfaceKind, d.recordedNames()) {
		if attr(child(have.element, "model"), "type") == "usb-net" {
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "network card of model usb-net", Attribute: "interfaces." + have.key + ".model",
			})
		}
	}
	for _, have := range d.keyed(serialFamily.kind(), d.recordedNames()) {
		if attr(child(have.element, "target"), "type") == usbSerial {
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "serial port on USB", Attribute: join(serialFamily.Path, have.key) + ".target_type",
			})
		}
	}
	for _, e := range d.devices("crypto") {
		m.Immobile = append(m.Immobile, ImmobileDevice{What: "virtio crypto device", Attribute: extraPath(e)})
	}
	m.readImmobileOther(d)
	m.readImmobileVideo(d)
	m.readImmobileMemory(d)
}

// readImmobileVideo reads what of the graphics cards is in another process or in the host's own card. The acceleration
// of the first card is in Values.
func (m *Mobility) readImmobileVideo(d *Definition) {
	for i, e := range d.devices("video") {
		attribute := ""
		if i == 0 {
			attribute = "devices.video"
		}
		model := child(e, "model")
		switch {
		case attr(child(e, "driver"), "name") == "vhostuser":
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "graphics card in a process of its own (vhostuser)", Attribute: attribute,
			})
		case i > 0 && attr(child(model, "acceleration"), "accel3d") == "yes":
			m.Immobile = append(m.Immobile, ImmobileDevice{What: "further graphics card with 3D acceleration"})
		case attr(model, "blob") == "on":
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "graphics card with blob resources", Attribute: attribute, SomeQEMU: true,
			})
		}
	}
}

// readImmobileMemory reads memory whose state stays with its host. QEMU saves nothing of a virtio-pmem device, and only
// the host's CPU can read the memory of SGX.
func (m *Mobility) readImmobileMemory(d *Definition) {
	for _, e := range d.devices("memory") {
		if model := attr(e, "model"); model == "virtio-pmem" || model == "sgx-epc" {
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "memory device of model " + model, Attribute: extraPath(e),
			})
		}
	}
	if attr(child(d.root(), "features", "mte"), "state") == "on" && attr(d.root(), "type") == "kvm" {
		m.Immobile = append(m.Immobile, ImmobileDevice{What: "CPU that tags memory (mte)"})
	}
}

// readImmobileOther reads disks, inputs and IOMMUs that QEMU marks as unmigratable.
func (m *Mobility) readImmobileOther(d *Definition) {
	for _, have := range d.keyed(diskKind, d.recordedNames()) {
		if attr(child(have.element, "target"), "bus") == "nvme" {
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "disk on the bus nvme", Attribute: "disks." + have.key + ".bus",
			})
		}
	}
	for _, have := range d.keyed(inputFamily.kind(), d.recordedNames()) {
		if attr(have.element, "type") == "passthrough" {
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "input device of its host", Attribute: join(inputFamily.Path, have.key) + ".type",
			})
		}
	}
	for _, e := range d.devices("iommu") {
		if attr(e, "model") == "amd" {
			m.Immobile = append(m.Immobile, ImmobileDevice{
				What: "IOMMU of model amd", Attribute: "devices.iommu.model", SomeQEMU: true,
			})
		}
	}
}

// hostAddress returns the host's device that a <source> describes.
func hostAddress(source *etree.Element) string {
	address := child(source, "address")
	switch {
	case attr(address, "domain") != "":
		return plainHex(address, "domain") + ":" + plainHex(address, "bus") + ":" + plainHex(address, "slot") + "." +
			plainHex(address, "function")
	case attr(address, "uuid") != "":
		return attr(address, "uuid")
	case strings.HasPrefix(attr(child(source, "adapter"), "name"), scsiAdapter) && attr(address, "unit") != "":
		return strings.TrimPrefix(attr(child(source, "adapter"), "name"), scsiAdapter) + ":" + attr(address, "bus") + ":" +
			attr(address, "target") + ":" + attr(address, "unit")
	case child(source, "vendor") != nil:
		return plainHex(child(source, "vendor"), "id") + ":" + plainHex(child(source, "product"), "id")
	default:
		return unknownHostDevice
	}
}

// plainHex returns a number as libvirt writes it, without the 0x.
func plainHex(e *etree.Element, key string) string { return strings.TrimPrefix(attr(e, key), "0x") }
