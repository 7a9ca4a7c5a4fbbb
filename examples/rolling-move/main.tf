# A set of VMs moves in one apply: every VM of the set once, wherever it is, to the other host that fits best, a few at a time. To
# move them all again, give the move a new name: terraform apply -var move=kvm1-firmware-2024-09. To drain a host, use
# virtfleet_host_maintenance, which moves only the VMs that are there.

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

# schedulable = false: no VM is created on kvm1 or moved to it. So VMs of the set that are on kvm1 leave it, and none moves there.
provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system", schedulable = false }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
    kvm3 = { uri = "qemu+ssh://root@kvm3.example.net/system" }
  }
  migration_limits  = { per_fleet = 4, outbound_per_host = 3 }
  migration_options = { allow_auto_converge = true }
}

variable "vms" {
  description = "The names of the VMs."
  type        = set(string)
  default     = ["web-1", "web-2", "web-3"]
}

variable "move" {
  description = "Name of this move. A new name moves every VM again."
  type        = string
  default     = "kvm1-firmware-2024-03"
}

variable "directory" {
  description = "A directory that all hosts have mounted, so that no disk is copied."
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

# None sets host, so each may be on any host. The disks are empty: add an image, as in ../first-vm.
resource "virtfleet_virtual_machine" "web" {
  for_each = var.vms

  name       = each.key
  memory     = { size = "2Gi" }
  disks      = { root = { pool = virtfleet_storage_pool.shared.name, size = "20Gi", cache = "none" } }
  interfaces = { lan = { bridge = var.bridge } }
}

resource "virtfleet_migration" "web" {
  for_each = virtfleet_virtual_machine.web

  virtual_machine_id = each.value.id
  triggers           = { move = var.move }
}

output "moved" {
  description = "The host that each VM was moved to."
  value       = { for name, m in virtfleet_migration.web : name => m.migration_state.target_host }
}
