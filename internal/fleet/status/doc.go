// Package status turns observations of a virtual machine into what users see: the phase, status and conditions that
// KubeVirt would show, the interfaces as several sources report them, and the next action that a run strategy requires.
//
// Start with facts.go and condition.go: conditions are functions of Facts. phase.go has phases and statuses,
// run_strategy.go has run strategies, and interfaces.go merges what is known of interfaces.
//
// It consists of pure functions of plain values. It imports nothing of this module and must not know libvirt, Terraform
// or any host: plan, refresh and every operation share these results, so they may depend only on their input.
package status
