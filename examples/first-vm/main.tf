# A first VM to log in to: a storage pool and an image on two hosts, and a VM with a disk from that image. The VM is placed on
# one of the hosts. Its disk grows while it runs, moves with it, and is removed with it.

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }

  # Each host has a network "default" of its own, so a move breaks the VM's connections. A bridge doesn't need this option.
  migration_options = { allow_network_change = true }
}

variable "image" {
  description = "URL of a cloud image, and the URL of the file with its checksum."
  type        = object({ url = string, checksum = string })
  default = {
    url      = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/debian-12-genericcloud-amd64-20241125-1942.qcow2"
    checksum = "https://cloud.debian.org/images/cloud/bookworm/20241125-1942/SHA512SUMS"
  }
}

variable "host" {
  description = "The host that the VM belongs on. A change moves it while it runs. Not set: the provider chooses."
  type        = string
  default     = null
}

variable "ssh_public_key_file" {
  description = "The key that may log in to the VM."
  type        = string
  default     = "~/.ssh/id_ed25519.pub"
}

# A directory on each host. libvirt creates it.
resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = "/srv/vms" }
}

# The provider downloads the image once, verifies its checksum, and sends it to both hosts.
resource "virtfleet_image" "debian" {
  name   = "debian-12"
  pool   = virtfleet_storage_pool.vms.name
  source = var.image
}

resource "virtfleet_virtual_machine" "web" {
  name         = "web"
  host         = var.host
  run_strategy = "Always"
  cpu          = { vcpus = 2 }
  memory       = { size = "2Gi" }

  disks = {
    root = { pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.debian.id, size = "20Gi" }
  }

  # libvirt's own network on the host, with NAT and DHCP.
  interfaces = {
    lan = { network = "default" }
  }

  # The guest does this at its first boot. Its hostname is the VM's name.
  cloud_init = {
    user_data = join("\n", ["#cloud-config", yamlencode({
      users = [{
        name                = "ops"
        sudo                = "ALL=(ALL) NOPASSWD:ALL"
        shell               = "/bin/bash"
        ssh_authorized_keys = [trimspace(file(pathexpand(var.ssh_public_key_file)))]
      }]
      packages = ["qemu-guest-agent"] # the guest needs a way to its distribution's packages
    })])
  }

  # The apply ends when the guest's agent is connected. cloud-init installs it after it has created the user, so you can log in then.
  wait_for = { guest_agent = true, ip_address = "lan", timeout = "10m" }
}

output "host" {
  value = virtfleet_virtual_machine.web.current_host
}

output "address" {
  value = try(virtfleet_virtual_machine.web.ip_addresses["lan"][0], null)
}
