resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = "/srv/vms" }
}

resource "virtfleet_image" "debian" {
  name   = "debian-12"
  pool   = "vms"
  source = { url = "https://example.net/debian.qcow2", checksum = "https://example.net/SHA512SUMS" }
}

resource "virtfleet_volume" "data" {
  name = "data"
  pool = "vms"
  size = "1Gi"
}

resource "virtfleet_volume" "desktop" {
  name = "desktop"
  pool = "vms"
  size = "64Gi"
}

resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = "client.libvirt"
  value_wo         = "secret"
  value_wo_version = "1"
}

resource "virtfleet_secret" "chap" {
  usage            = "iscsi"
  usage_id         = "san.example.net"
  value_wo         = "secret"
  value_wo_version = "1"
}

resource "virtfleet_secret" "tpm" {
  usage            = "vtpm"
  usage_id         = "vault-tpm"
  value_wo         = "secret"
  value_wo_version = "1"
}

resource "virtfleet_virtual_machine" "web" {
  name = "web"
}

data "virtfleet_conditions" "web" {
  name = "web"
}

data "virtfleet_evacuation_plan" "kvm1" {
  host = "kvm1"
}

variable "host" {
  type    = string
  default = null
}

variable "password_hash" {
  type      = string
  default   = null
  ephemeral = true
}

variable "passphrase" {
  type      = string
  default   = null
  ephemeral = true
}
