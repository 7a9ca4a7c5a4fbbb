// Package evacuation decides how a host is drained: which policy a VM deserves, what that means for it, where it
// goes so that all of them fit, and in which order. Its decisions are KubeVirt's.
//
// Everything here is a function of its input. It imports fleet/policy, and the names and options of
// fleet/migration. It must not know hosts, connections or the fleet, which gathers the input and carries the plan out.
package evacuation
