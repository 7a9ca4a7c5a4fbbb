# Checked against the published checksums. Every host that has the pool gets a copy.
resource "virtfleet_image" "debian" {
  name = "debian-12"
  pool = "vms"
  source = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-amd64.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS"
  }
}

# A local file, compressed.
resource "virtfleet_image" "golden" {
  name   = "golden"
  pool   = "vms"
  source = { file = "golden.qcow2.zst" }
  hosts  = ["kvm1", "kvm2"]
}
