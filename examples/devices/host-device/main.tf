# A graphics card, a USB device, a tape drive and the keyboard of the host, and an IOMMU for guests within the guest. Such a VM can only be
# moved while it is off. "virsh nodedev-list" on the host lists the devices, "lsusb" those on USB. PCI devices require an
# IOMMU that is turned on: VT-d or AMD-Vi in the host's firmware, and intel_iommu=on for the kernel.

terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
  }
}

resource "virtfleet_virtual_machine" "render" {
  name         = "render"
  host         = "kvm1"
  machine_type = "q35"
  memory       = { size = "16Gi" }

  devices = {
    host_devices = {
      # All functions of a card, as of any IOMMU group. The guest finds the firmware in the file, not in the card.
      gpu    = { type = "pci", address = "0000:65:00.0", rom_file = "/srv/roms/gpu.rom" }
      audio  = { type = "pci", address = "0000:65:00.1" }
      dongle = { type = "usb", address = "1234:abcd" }
      # A tape drive, with the address that "lsscsi -g" prints.
      tape = { type = "scsi", address = "0:0:1:0" }
      # A part of a card, which was created with mdevctl.
      vgpu = { type = "mdev", address = "5a9fc181-957e-5c32-9e5a-2de5e9673531" }
    }
    # The host's keyboard and mouse, which both Alt keys together give to the guest and back.
    inputs = {
      keys = {
        type        = "evdev"
        device      = "/dev/input/by-path/pci-0000:00:14.0-usb-0:1:1.0-event-kbd"
        grab        = "all"
        grab_toggle = "alt-alt"
        repeat      = true
      }
      pointer = { type = "evdev", device = "/dev/input/by-path/pci-0000:00:14.0-usb-0:2:1.0-event-mouse" }
    }
    iommu = { model = "intel", caching_mode = true }
    # The host's own TPM, which only one VM can have.
    tpm = { backend = "passthrough" }
  }
}
