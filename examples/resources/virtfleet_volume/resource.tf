# An empty volume, on one of the hosts that have the pool.
resource "virtfleet_volume" "orders" {
  name = "orders-data"
  pool = "vms"
  host = "kvm1"
  size = "100Gi"
}

# A copy of an image, larger than the image.
resource "virtfleet_volume" "root" {
  name  = "orders-root"
  pool  = "vms"
  host  = "kvm1"
  image = virtfleet_image.debian.id
  clone = "full"
  size  = "20Gi"
}

# A copy of another volume of that host. No VM writes to it during the copy.
resource "virtfleet_volume" "staging" {
  name    = "staging-root"
  pool    = "vms"
  host    = "kvm1"
  copy_of = virtfleet_volume.root.id
}

# All space is allocated at once, and only its owner reads the file. The ids are those of QEMU's user on the host.
resource "virtfleet_volume" "journal" {
  name          = "orders-journal"
  pool          = "vms"
  host          = "kvm1"
  size          = "10Gi"
  format        = "raw"
  preallocation = "full"
  permissions   = { mode = "0600", owner = "64055", group = "64055" }
}

# Encrypted with LUKS. A VM that uses it sets disks.<key>.encryption, too.
resource "virtfleet_volume" "vault" {
  name       = "vault"
  pool       = "vms"
  host       = "kvm1"
  size       = "20Gi"
  format     = "raw"
  encryption = { secret = virtfleet_secret.vault.id }
}

variable "passphrase" {
  type      = string
  ephemeral = true
}

resource "virtfleet_secret" "vault" {
  usage            = "volume"
  usage_id         = "vault"
  value_wo         = var.passphrase
  value_wo_version = "1"
}

resource "virtfleet_image" "debian" {
  name = "debian-12"
  pool = "vms"
  source = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/debian-12-genericcloud-amd64-20241125-1942.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/SHA512SUMS"
  }
}
