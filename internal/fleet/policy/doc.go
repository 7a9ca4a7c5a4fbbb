// Package policy has what all policies of a fleet share, whatever they control: an identity, a selector of VMs, and the
// precedence among several policies that select the same VM. The precedence is KubeVirt's.
//
// All functions depend only on their input. It imports nothing of the project, and must not know what a policy controls
// or where it is stored.
package policy
