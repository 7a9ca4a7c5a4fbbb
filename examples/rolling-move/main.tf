# A set of VMs moves in one apply: every VM of the set once, each to the host that fits best, a few at a time. To empty a host,
# use virtfleet_host_maintenance, which moves only the VMs that are there.

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system", schedulable = false }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system", migration_address = "10.0.0.12" }
    kvm3 = { uri = "qemu+ssh://root@kvm3.example.net/system", migration_address = "10.0.0.13" }
  }
  migration_limits  = { per_fleet = 4, outbound_per_host = 3 }
  migration_options = { allow_auto_converge = true }
}

variable "vms" {
  description = "The VMs by name, with the NBD export that holds each one's disk."
  type        = map(string)
  default     = { web-1 = "web-1", web-2 = "web-2", web-3 = "web-3" }
}

variable "move" {
  description = "Name of this move. A new name moves every VM again."
  type        = string
  default     = "kvm1-firmware-2024-03"
}

resource "virtfleet_virtual_machine" "web" {
  for_each = var.vms

  name       = each.key
  memory     = { size = "2Gi" }
  disks      = { root = { network = { protocol = "nbd", name = each.value, hosts = ["10.0.0.1:10809"] }, cache = "none" } }
  interfaces = { lan = { bridge = "br0" } }
}

resource "virtfleet_migration" "web" {
  for_each = virtfleet_virtual_machine.web

  virtual_machine_id = each.value.id
  triggers           = { move = var.move }
}

output "moved" {
  value = { for name, m in virtfleet_migration.web : name => m.migration_state.target_host }
}
