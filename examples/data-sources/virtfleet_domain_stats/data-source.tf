# Two samples, five seconds apart, of all VMs with these labels.
data "virtfleet_domain_stats" "prod" {
  selector = { labels = { tier = "prod" } }
  interval = "5s"
}

output "busy" {
  # How busy each VM keeps the host's processors: 100 is one processor.
  value = {
    for vm in values(data.virtfleet_domain_stats.prod.stats) : vm.name => vm.cpu.usage_percent
    # cpu is null for VMs that don't run; unavailable has the reason.
    if vm.cpu != null
  }
}

output "waiting" {
  # Disks whose reads take longer than 20 ms on average.
  value = flatten([
    for vm in values(data.virtfleet_domain_stats.prod.stats) : [
      for key, disk in coalesce(vm.disks, {}) : "${vm.name}/${key}"
      if coalesce(disk.read_latency_seconds, 0) > 0.02
    ]
  ])
}
