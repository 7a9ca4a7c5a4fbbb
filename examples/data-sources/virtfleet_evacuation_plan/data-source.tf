data "virtfleet_evacuation_plan" "kvm1" {
  host = "kvm1"
}

output "what_would_happen" {
  value = [for s in data.virtfleet_evacuation_plan.kvm1.steps : "${s.name}: ${s.method} ${coalesce(s.target, "-")}"]
}

output "blockers" {
  value = {
    for s in data.virtfleet_evacuation_plan.kvm1.steps : s.name => s.blockers if s.blockers != null
  }
}
