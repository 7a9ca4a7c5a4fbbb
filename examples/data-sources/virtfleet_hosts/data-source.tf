data "virtfleet_hosts" "zone_a" {
  labels  = { zone = "a" }
  include = ["cpu"]
}

output "unreachable_hosts" {
  value = {
    for name, host in data.virtfleet_hosts.zone_a.hosts : name => host.error if !host.reachable && !host.fenced
  }
}

output "cordoned_hosts" {
  value = {
    for name, host in data.virtfleet_hosts.zone_a.hosts : name => host.cordon.owner if coalesce(host.cordoned, false)
  }
}

# CPU models that all hosts that answered offer: a VM with one of them can move to each of these hosts.
output "common_cpu_models" {
  value = try(setintersection([for host in data.virtfleet_hosts.zone_a.hosts : host.cpu.usable_models if host.cpu != null]...), [])
}
