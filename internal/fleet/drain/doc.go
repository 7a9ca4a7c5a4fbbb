// Package drain drains a host and restores what the drain did. It finds out where each VM can go, cordons the host, and
// moves, shuts down or saves the VMs, several at once, until no VM runs on the host. It records each step on the host,
// so that the next run continues where an interrupted run ended, and Release undoes it.
//
// Start with drain.go. runSteps begins a step for each VM; runStep (retry.go) repeats tryStep (try_step.go) until the
// VM has left. plan_evacuation.go says which steps a plan of Terraform shows, evacuation_input.go gathers what they
// depend on, and release.go undoes them.
//
// It imports evacuation (which rule applies to a VM, and which steps follow), hostrecord (what is recorded), inventory,
// records (locks, cordons, policies), placement (capacity), move (moves) and lifecycle (starts and stops). It must not
// know Terraform, nor why a host is drained.
package drain
