// Package evacuation decides how a host is drained: which policy applies to a VM, which method follows, which target
// each VM gets so that all of them fit, and in which order they leave. Its decisions are KubeVirt's.
//
// Start with compute.go: Compute makes steps (step.go) from what drain has gathered (input.go). method.go chooses the
// method for a VM, targets.go its target.
//
// Everything here is a function of its input. It must not know hosts, connections or the fleet. Package drain gathers
// the input and carries the plan out.
package evacuation
