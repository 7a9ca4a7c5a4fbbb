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

resource "virtfleet_image" "debian" {
  name = "debian-12"
  pool = "vms"
  source = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/debian-12-genericcloud-amd64-20241125-1942.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/SHA512SUMS"
  }
}
