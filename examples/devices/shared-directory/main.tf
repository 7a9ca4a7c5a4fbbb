# A directory of the host in the guest: mount -t virtiofs share /mnt. It needs virtiofsd on the host. Such a VM is moved while it is off.

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

resource "virtfleet_virtual_machine" "builder" {
  name   = "builder"
  memory = { size = "2Gi", shared = true }

  devices = {
    filesystems = {
      share = { target = "share", source = "/srv/share" }
    }
  }
}
