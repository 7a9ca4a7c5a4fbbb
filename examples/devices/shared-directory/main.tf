# A directory of the host in the guest: mount -t 9p -o trans=virtio share /mnt. Such a VM is moved while it is off.

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
  memory = { size = "2Gi" }

  devices = {
    filesystems = {
      share = { target = "share", source = "/srv/share", driver = "9p", access_mode = "mapped", read_only = true }
    }
  }
}
