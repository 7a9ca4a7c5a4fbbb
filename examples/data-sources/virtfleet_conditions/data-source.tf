data "virtfleet_conditions" "web" {
  name = "web"
}

output "alive" {
  value = {
    status = data.virtfleet_conditions.web.status

    # Three facts that "it is up" mixes: the process runs, the guest runs, and its agent answers.
    started = data.virtfleet_conditions.web.conditions["Started"].status
    ready   = data.virtfleet_conditions.web.conditions["Ready"].status
    agent   = data.virtfleet_conditions.web.conditions["AgentConnected"].reason
  }
}

output "addresses" {
  # Who knows the addresses: "domain, guest-agent, lease", or without an agent "domain, lease".
  value = {
    for i in data.virtfleet_conditions.web.interfaces : i.mac => "${join(" ", i.ip_addresses)} (${i.info_source})"
  }
}

output "blockers" {
  value = [for b in coalesce(data.virtfleet_conditions.web.blockers, []) : "${b.reason}: ${b.message}" if b.status == "False"]
}

# The health of a VM as a check: every plan warns while a condition isn't as it should be.
check "web" {
  assert {
    condition     = data.virtfleet_conditions.web.conditions["Ready"].status == "True"
    error_message = "web is not ready: ${coalesce(data.virtfleet_conditions.web.conditions["Ready"].message, "unknown")}"
  }
}
