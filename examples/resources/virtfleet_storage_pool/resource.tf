# A directory on every host, including hosts that are added later.
resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = "/srv/vms" }
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
