# A VM that moves when its host changes: "terraform apply -var host=kvm2" migrates it while it runs. Its disk is in a directory
# that both hosts have mounted, so it isn't copied.

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

# migration_address: the host's address in the network over which VMs are migrated.
provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system", migration_address = "10.0.0.11" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system", migration_address = "10.0.0.12" }
  }
}

variable "host" {
  description = "The host that the VM is on. A new value moves it."
  type        = string
  default     = "kvm1"
}

variable "directory" {
  description = "A directory that all hosts have mounted."
  type        = string
  default     = "/srv/shared"
}

variable "bridge" {
  description = "A bridge to the LAN that every host has."
  type        = string
  default     = "br0"
}

resource "virtfleet_storage_pool" "shared" {
  name   = "shared"
  type   = "dir"
  target = { path = var.directory }
  shared = true
}

resource "virtfleet_virtual_machine" "web" {
  name   = "web"
  host   = var.host
  memory = { size = "2Gi" }

  # The disk is empty: add image = virtfleet_image.<name>.id, as in ../first-vm.
  disks      = { root = { pool = virtfleet_storage_pool.shared.name, size = "20Gi", cache = "none" } }
  interfaces = { lan = { bridge = var.bridge } }

  # If something blocks the move, the plan fails. A guest that writes faster than its memory is copied is slowed down
  # (auto-converge). If that isn't enough, it continues on the target before all of its memory is there (post-copy). If the network
  # fails then, the guest is paused until the next apply resumes the migration. If a host fails then, the guest's memory is lost.
  # Where QEMU doesn't run as root, as on Debian, post-copy needs the sysctl vm.unprivileged_userfaultfd = 1 on both hosts.
  migration_options = { allow_auto_converge = true, allow_post_copy = true }
  timeouts          = { update = "30m" }
}

output "host" {
  description = "Where the VM is, also after a move by hand."
  value       = virtfleet_virtual_machine.web.current_host
}
