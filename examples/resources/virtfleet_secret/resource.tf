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
