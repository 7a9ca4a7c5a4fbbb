# The plan shows the step of each VM. The apply does exactly this, or stops.
data "virtfleet_evacuation_plan" "kvm1" {
  host = "kvm1"
}

resource "virtfleet_host_maintenance" "kvm1" {
  host    = "kvm1"
  steps   = data.virtfleet_evacuation_plan.kvm1.steps
  restore = true # When it is destroyed, bring back what was moved, and start what was shut down.
  reason  = "CHG-1234: new memory"
}
