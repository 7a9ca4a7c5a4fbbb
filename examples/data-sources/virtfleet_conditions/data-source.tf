data "virtfleet_conditions" "web" {
  name = "web"
}

output "alive" {
  value = {
    status = data.virtfleet_conditions.web.status

    # Three different facts: QEMU runs, the guest runs, and its agent answers.
    started = data.virtfleet_conditions.web.conditions["Started"].status
    ready   = data.virtfleet_conditions.web.conditions["Ready"].status
    agent   = data.virtfleet_conditions.web.conditions["AgentConnected"].reason
  }
}

output "addresses" {
  # The addresses, with their sources: "domain, guest-agent, lease", or without an agent "domain, lease".
  value = {
    for i in coalesce(data.virtfleet_conditions.web.interfaces, []) :
    i.mac => "${join(" ", coalesce(i.ip_addresses, []))} (${i.info_source})"
  }
}

output "blockers" {
  value = [for b in coalesce(data.virtfleet_conditions.web.blockers, []) : "${b.reason}: ${b.message}" if b.status == "False"]
}

# Every plan shows a warning while the VM isn't ready.
check "web" {
  assert {
    condition     = data.virtfleet_conditions.web.conditions["Ready"].status == "True"
    error_message = "web is not ready: ${coalesce(data.virtfleet_conditions.web.conditions["Ready"].message, "unknown")}"
  }
}
