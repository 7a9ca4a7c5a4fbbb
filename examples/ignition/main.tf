# Fedora CoreOS, set up by Ignition at its first boot: a user with a key, and a password hash that stays out of the state. It
# needs a host with a storage pool "vms" and libvirt's network "default".

terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
  }
}

variable "image" {
  description = "The image for QEMU from the download page of Fedora CoreOS (.qcow2.xz), and its checksum, \"sha256:...\"."
  type        = object({ url = string, checksum = string })
}

variable "ssh_public_key" {
  description = "The key that may log in as core."
  type        = string
}

variable "password_hash" {
  description = "What \"mkpasswd --method=yescrypt\" prints. Terraform keeps it nowhere."
  type        = string
  ephemeral   = true
}

resource "virtfleet_image" "coreos" {
  name   = "fedora-coreos"
  pool   = "vms"
  source = var.image
}

resource "virtfleet_virtual_machine" "core" {
  name         = "core"
  run_strategy = "Always"
  cpu          = { vcpus = 2 }
  memory       = { size = "2Gi" }

  disks      = { root = { pool = "vms", image = virtfleet_image.coreos.id, size = "20Gi" } }
  interfaces = { lan = { network = "default" } }

  # A new config_wo_version writes the configuration again, and needs a restart of the VM. Ignition itself runs once.
  ignition = {
    config_wo_version = "1"
    config_wo = jsonencode({
      ignition = { version = "3.4.0" }
      passwd = {
        users = [{ name = "core", sshAuthorizedKeys = [var.ssh_public_key], passwordHash = var.password_hash }]
      }
    })
  }
}
