# A VM on NFS: every host mounts the export, so the VM moves while it runs without a copy of its disk, and a host that dies takes
# no disk with it. Before you apply: the server exports /export/vms to all hosts with no_root_squash, and the hosts have
# mount.nfs (nfs-common on Debian).

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
}

variable "image" {
  description = "URL of a cloud image, and the URL of the file with its checksum."
  type        = object({ url = string, checksum = string })
  default = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/debian-12-genericcloud-amd64-20241125-1942.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/SHA512SUMS"
  }
}

variable "bridge" {
  description = "A bridge to the LAN that every host has."
  type        = string
  default     = "br0"
}

# libvirt mounts the export at target.path on each host. A pool of type netfs is always shared.
resource "virtfleet_storage_pool" "nfs" {
  name   = "nfs"
  type   = "netfs"
  target = { path = "/srv/nfs" }
  source = {
    hosts  = [{ name = "nas.example.net" }]
    dir    = "/export/vms"
    format = "nfs"
  }
}

# One copy for all hosts, because they share the pool.
resource "virtfleet_image" "debian" {
  name   = "debian-12"
  pool   = virtfleet_storage_pool.nfs.name
  source = var.image
}

resource "virtfleet_virtual_machine" "web" {
  name   = "web"
  memory = { size = "2Gi" }

  # Without cache = "none", the plan of a move while the VM runs fails. To log in, add cloud_init, as in ../first-vm, before you apply.
  disks = {
    root = { pool = virtfleet_storage_pool.nfs.name, image = virtfleet_image.debian.id, size = "20Gi", cache = "none" }
  }
  interfaces = { lan = { bridge = var.bridge } }
}
