# Checked against the published checksums. Every host that has the pool gets a copy. The URL has a version: what is behind
# "latest" changes, and a host that is added later would get other content.
resource "virtfleet_image" "debian" {
  name = "debian-12"
  pool = "vms"
  source = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/debian-12-genericcloud-amd64-20241125-1942.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/SHA512SUMS"
  }
}

# A local file, compressed.
resource "virtfleet_image" "golden" {
  name   = "golden"
  pool   = "vms"
  source = { file = "${path.module}/golden.qcow2.zst" }
  hosts  = ["kvm1", "kvm2"]
}
