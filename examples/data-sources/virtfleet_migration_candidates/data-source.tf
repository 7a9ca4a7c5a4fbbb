data "virtfleet_migration_candidates" "web" {
  virtual_machine_id = "4dea22b3-1d52-d8f3-2516-782e98ab3fa0"
  migration_options  = { allow_network_change = true }
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
