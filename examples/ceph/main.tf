# A VM whose disks are in a Ceph cluster: one from a cloud image, an empty and an existing one. All hosts reach it, so the VM moves
# live without a copy of its disks. The Ceph pool vms, the image vms/orders and the user client.libvirt exist before the apply. On
# Debian, each host needs the packages qemu-block-extra and libvirt-daemon-driver-storage-rbd. Run it as
#
#   terraform apply -var "ceph_key=$(ceph auth get-key client.libvirt)"

terraform {
  required_version = ">= 1.11" # for write-only attributes

  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
}

# The output of "ceph auth get-key client.libvirt". Terraform doesn't store it.
variable "ceph_key" {
  description = "Key of the Ceph user that QEMU logs in as, in Base64."
  type        = string
  ephemeral   = true
}

variable "image" {
  description = "URL of a cloud image, and the URL of the file with its checksum."
  type        = object({ url = string, checksum = string })
  default = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/debian-12-genericcloud-amd64-20241125-1942.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/SHA512SUMS"
  }
}

# The key, on every host. A new value_wo_version writes it again. private = false: if a host lacks the key, the move of a VM there
# copies it from another host. libvirt reveals the value of a private secret to no client, so such a move would fail the plan.
resource "virtfleet_secret" "ceph" {
  usage            = "ceph"
  usage_id         = "client.libvirt"
  private          = false
  value_base64_wo  = var.ceph_key
  value_wo_version = "1"
}

# The Ceph pool vms as a storage pool. Disks with volume take the monitors, the user and the secret from it.
resource "virtfleet_storage_pool" "ceph" {
  name = "ceph"
  type = "rbd"
  source = {
    name  = "vms"
    hosts = [{ name = "ceph1.example.net", port = 6789 }, { name = "ceph2.example.net", port = 6789 }]
    auth  = { type = "ceph", username = "libvirt", secret = virtfleet_secret.ceph.id }
  }
}

# libvirt can't upload to Ceph, so the cloud image is in a directory of one host.
resource "virtfleet_storage_pool" "images" {
  name   = "images"
  type   = "dir"
  hosts  = ["kvm1"]
  target = { path = "/srv/images" }
}

resource "virtfleet_image" "debian" {
  name   = "debian-12"
  pool   = virtfleet_storage_pool.images.name
  source = var.image
}

# vms/orders-data, which is empty. It outlives the VM.
resource "virtfleet_volume" "data" {
  name = "orders-data"
  pool = virtfleet_storage_pool.ceph.name
  size = "50Gi"
}

# The root disk is created and removed with the VM: QEMU on kvm1, which has the cloud image, copies that to Ceph. vms/orders exists,
# made with rbd import or rbd create --size 20G vms/orders. To log in, add cloud_init, as in ../first-vm, before you apply, with pool:
# its medium is a file, so it needs a pool of type dir, fs or netfs, on each host that the VM may move to.
resource "virtfleet_virtual_machine" "orders" {
  name   = "orders"
  memory = { size = "4Gi" }

  disks = {
    root = {
      pool  = virtfleet_storage_pool.ceph.name
      image = virtfleet_image.debian.id
      clone = "full"
      size  = "20Gi"
      cache = "none"

      boot_order = 1
    }
    data = { volume = virtfleet_volume.data.id, cache = "none" }
    old  = { volume = "${virtfleet_storage_pool.ceph.id}/orders", cache = "none" }
  }
}
