# Windows 11 with what it expects: UEFI with secure boot, a TPM, local time, Hyper-V enlightenments. The profile sets it, the
# plan shows it, and what is declared here takes precedence.

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

resource "virtfleet_virtual_machine" "windows" {
  name    = "windows"
  profile = "windows-11" # "windows-11-virtio" if the image has virtio drivers
  cpu     = { cores = 4 }
  memory  = { size = "8Gi" }

  disks = {
    system  = { pool = "vms", size = "64Gi", boot_order = 1 }
    install = { file = "/srv/iso/windows-11.iso", device = "cdrom", boot_order = 2 }
  }
  interfaces = { lan = { network = "default" } }

  # What the profile sets can be declared in another way: here because a host's kernel lacks this enlightenment.
  # The guest is told by its registry (RealTimeIsUniversal) that its clock has UTC.
  platform = {
    hyperv = { frequencies = false }
    clock  = { offset = "utc" }
  }
}
