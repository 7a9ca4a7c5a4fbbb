// Package status turns observations of a virtual machine into what users see: the phase, status and conditions that
// KubeVirt would show, the interfaces as several sources report them, and the next action that a run strategy requires.
//
// It consists of pure functions of plain values. It imports nothing of this module and must not know libvirt, Terraform
// or any host: plan, refresh and every operation share these results, so they may depend only on their input.
package status
