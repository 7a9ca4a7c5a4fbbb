data "virtfleet_virtual_machines" "paused" {
  labels    = { tier = "prod" }
  condition = { type = "Paused" }
}

data "virtfleet_virtual_machines" "on_kvm1" {
  host  = "kvm1"
  phase = "Running"
}

output "paused" {
  value = {
    for id, vm in data.virtfleet_virtual_machines.paused.virtual_machines : vm.name => vm.status_reason
  }
}

# The strategy by which each VM would leave the host in a drain, and where the strategy comes from.
output "evicted_by" {
  value = {
    for id, vm in data.virtfleet_virtual_machines.on_kvm1.virtual_machines : vm.name => "${vm.eviction.strategy} (${vm.eviction.origin})"
    if vm.eviction != null
  }
}

output "memory_in_use_on_kvm1" {
  value = sum(concat([0], [for vm in data.virtfleet_virtual_machines.on_kvm1.virtual_machines : vm.memory_bytes]))
}
