// Package status turns what was observed of a virtual machine into the words people read: the phase, status and
// conditions that KubeVirt would show, the interfaces as several sources know them, and what a run strategy asks for
// next.
//
// It holds pure functions over plain values. It imports nothing of this module and must not know libvirt, Terraform or
// any host: plan, refresh and every operation share these answers, so they may depend on nothing but their input.
package status
