# A directory on every host, including hosts that are added later. To turn files put there by hand into volumes, change
# a value of refresh_triggers.
resource "virtfleet_storage_pool" "vms" {
  name             = "vms"
  type             = "dir"
  target           = { path = "/srv/vms" }
  refresh_triggers = { copied = "2026-11-20" }
}

# A filesystem on a partition, which libvirt mounts. The apply formats it; it isn't formatted again.
resource "virtfleet_storage_pool" "archive" {
  name   = "archive"
  type   = "fs"
  target = { path = "/srv/archive" }
  source = {
    devices = ["/dev/sdb1"]
    format  = "ext4"
  }
  hosts = ["kvm1"]
  build = true
}

# A disk that is divided into partitions: each volume is one. Volumes have the partitions' names, such as sdc1.
resource "virtfleet_storage_pool" "partitions" {
  name   = "partitions"
  type   = "disk"
  target = { path = "/dev" }
  source = {
    devices = ["/dev/sdc"]
    format  = "gpt"
  }
  hosts = ["kvm1"]
  build = true # writes the partition table
}

# The multipath devices that the hosts have. VMs use them with disks.volume or disks.block.
resource "virtfleet_storage_pool" "multipath" {
  name   = "multipath"
  type   = "mpath"
  target = { path = "/dev/mapper" }
}

# A volume group on each of two hosts, created on an empty disk.
resource "virtfleet_storage_pool" "fast" {
  name   = "fast"
  type   = "logical"
  target = { path = "/dev/fast" }
  source = {
    name    = "fast"
    format  = "lvm2"
    devices = ["/dev/nvme1n1"]
  }
  hosts = ["kvm1", "kvm2"]
  build = true
}

# Ceph, which all hosts share.
resource "virtfleet_storage_pool" "ceph" {
  name = "ceph"
  type = "rbd"
  source = {
    name  = "vms"
    hosts = [{ name = "ceph1.example.net" }, { name = "ceph2.example.net", port = 6789 }]
    auth  = { type = "ceph", username = "libvirt", secret = virtfleet_secret.ceph.id }
  }
}

# LUNs of an iSCSI target, which QEMU reaches itself. VMs use them with disks.network.
resource "virtfleet_storage_pool" "san" {
  name = "san"
  type = "iscsi-direct"
  source = {
    hosts     = [{ name = "san.example.net" }]
    devices   = ["iqn.2026-01.net.example:vms"]
    initiator = "iqn.2026-01.net.example:hosts"
    auth      = { type = "chap", username = "hosts", secret = virtfleet_secret.chap.id }
  }
}

# LUNs of an iSCSI target, which each host logs in to. VMs use them with disks.volume or disks.block.
resource "virtfleet_storage_pool" "luns" {
  name   = "luns"
  type   = "iscsi"
  target = { path = "/dev/disk/by-path" }
  source = {
    hosts   = [{ name = "san.example.net" }]
    devices = ["iqn.2026-01.net.example:vms"]
    auth    = { type = "chap", username = "hosts", secret = virtfleet_secret.chap.id }
  }
}

# LUNs of an adapter of the host, such as a Fibre Channel card.
resource "virtfleet_storage_pool" "adapter" {
  name   = "adapter"
  type   = "scsi"
  target = { path = "/dev/disk/by-path" }
  source = { adapter = { type = "scsi_host", name = "scsi_host0" } }
  hosts  = ["kvm1"]
}

# A Gluster volume, which no host mounts. VMs use its files with disks.network.
resource "virtfleet_storage_pool" "gluster" {
  name = "gluster"
  type = "gluster"
  source = {
    name  = "vms"
    hosts = [{ name = "gluster1.example.net" }]
    dir   = "/"
  }
}

# A ZFS pool, created on an empty disk. Each volume is a zvol.
resource "virtfleet_storage_pool" "tank" {
  name   = "tank"
  type   = "zfs"
  source = { name = "tank", devices = ["/dev/sdd"] }
  hosts  = ["kvm1"]
  build  = true
}

variable "chap_password" {
  type      = string
  ephemeral = true
}

resource "virtfleet_secret" "chap" {
  usage            = "iscsi"
  usage_id         = "san.example.net"
  value_wo         = var.chap_password
  value_wo_version = "1"
}

variable "ceph_key" {
  type      = string
  ephemeral = true
}

resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = "client.libvirt"
  value_base64_wo  = var.ceph_key
  value_wo_version = "1"
}
