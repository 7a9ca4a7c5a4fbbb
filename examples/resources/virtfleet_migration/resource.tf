resource "virtfleet_virtual_machine" "web" {
  name   = "web"
  memory = { size = "2Gi" }

  disks = {
    root = { network = { protocol = "nbd", name = "web", hosts = ["10.0.0.1:10809"] }, cache = "none" }
  }
  interfaces = { lan = { bridge = "br0" } }
}

# Moves the VM to kvm2: once, and for each new change number if it has left.
resource "virtfleet_migration" "web_out" {
  virtual_machine_id = virtfleet_virtual_machine.web.id
  target_host        = "kvm2"
  triggers           = { change = "CHG-1234" }

  migration_options = {
    bandwidth           = "500Mi"
    allow_auto_converge = true
  }
}

resource "virtfleet_virtual_machine" "scratch" {
  name   = "scratch"
  memory = { size = "2Gi" }
  disks  = { root = { file = "/srv/images/scratch.qcow2", format = "qcow2", cache = "none" } }
}

# Copies the disk, which only its host has. With keep_source_disks = false, the original is deleted after the copy.
resource "virtfleet_migration" "scratch_out" {
  virtual_machine_id = virtfleet_virtual_machine.scratch.id
  target_host        = "kvm2"

  migration_options = {
    copy_storage      = "full"
    keep_source_disks = false
  }
}

output "downtime_seconds" {
  value = try(virtfleet_migration.web_out.migration_state.statistics.downtime_seconds, null) # null for a VM that was off
}
