# A VM that moves when its host changes: "terraform apply -var host=kvm2" migrates it while it runs.

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
  description = "The host that the VM belongs on."
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

  # A blocker of the move fails the plan. A guest that writes faster than its memory is copied is slowed down, or continues
  # on the target before all of its memory is there; if a host or the network fails then, the guest can be lost.
  migration_options = { allow_auto_converge = true, allow_post_copy = true }
  timeouts          = { update = "30m" }
}

output "host" {
  description = "Where the VM is, also after a move by hand."
  value       = virtfleet_virtual_machine.web.current_host
}
