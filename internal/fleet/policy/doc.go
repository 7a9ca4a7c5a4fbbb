// Package policy is what policies of a fleet have in common, whatever they rule: an identity, a selector of VMs,
// and which of several that select the same VM wins. The precedence is KubeVirt's.
//
// Everything here is a function of its input. It imports nothing of the project, and must not know what a policy says
// or where it is kept.
package policy
