data "virtfleet_migration_candidates" "web" {
  name              = "web"
  migration_options = { allow_network_change = true }
}

output "where_to" {
  value = data.virtfleet_migration_candidates.web.fitting
}

output "why_not" {
  value = {
    for name, host in data.virtfleet_migration_candidates.web.hosts : name => [
      for b in host.blockers : "${b.reason}: ${b.message}. ${b.remedy}" if b.status == "False"
    ] if !host.fits && !host.current
  }
}
