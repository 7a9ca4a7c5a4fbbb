# A machine that moves when its host changes: "terraform apply -var host=kvm2" migrates it while it runs.

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system", migration_address = "10.0.0.11" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system", migration_address = "10.0.0.12" }
  }
}

variable "host" {
  description = "The host that the machine is to be on."
  type        = string
  default     = "kvm1"
}

resource "virtfleet_virtual_machine" "web" {
  name   = "web"
  host   = var.host
  memory = { size = "2Gi" }
  disks = {
    root = { network = { protocol = "nbd", name = "web", hosts = ["10.0.0.1:10809"] }, cache = "none" }
  }
  interfaces = { lan = { bridge = "br0" } }

  # What is in the way of the move fails the plan. A guest that writes faster than can be copied is helped along.
  migration_options = { allow_auto_converge = true, allow_post_copy = true }
  timeouts          = { update = "30m" }
}

output "host" {
  description = "Where the machine is, whoever moved it there."
  value       = virtfleet_virtual_machine.web.current_host
}
