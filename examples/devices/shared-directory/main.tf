# A directory of the host in the guest: "mount -t virtiofs share /mnt" mounts it there. It needs virtiofsd on the host (on
# Debian 12, a part of qemu-system-common), and memory that QEMU shares with it. Such a VM can only be moved while it is off.

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
  memory = { size = "2Gi", shared = true, source = "memfd" }

  devices = {
    filesystems = {
      # With cache = "none", the guest sees at once what the host changes.
      share = { target = "share", source = "/srv/share", cache = "none", queue_size = 1024, xattr = true }
      # "mount -t 9p -o trans=virtio tools /opt/tools" mounts it. It needs no other program, and is slower.
      tools = { target = "tools", source = "/srv/tools", driver = "9p", read_only = true }
      # Owners that the guest gives to files are kept apart from those that the host sees.
      cache = { target = "cache", source = "/srv/cache", driver = "9p", access_mode = "mapped" }
    }
  }
}
