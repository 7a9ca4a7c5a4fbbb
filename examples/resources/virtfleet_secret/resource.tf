variable "ceph_key" {
  type      = string
  ephemeral = true
}

# On every host. A new version writes the value again.
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = "client.libvirt"
  value_base64_wo  = var.ceph_key
  value_wo_version = "1"
}

# A VM whose disk is an RBD image that QEMU opens with the secret.
resource "virtfleet_virtual_machine" "orders" {
  name   = "orders"
  memory = { size = "4Gi" }

  disks = {
    root = {
      network = {
        protocol = "rbd"
        name     = "vms/orders"
        hosts    = ["ceph1.example.net:6789", "ceph2.example.net:6789"]
        auth     = { username = "libvirt", secret = virtfleet_secret.ceph.id }
      }
      cache = "none"
    }
  }
}
