variable "ceph_key" {
  type      = string
  ephemeral = true
}

# The secret is on every host. If you change the value, change value_wo_version too.
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = "client.libvirt"
  value_base64_wo  = var.ceph_key
  value_wo_version = "1"
}
