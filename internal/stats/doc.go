// Package stats makes sense of what libvirt counts of a VM: one model of its processors, memory, disks and
// interfaces in which what wasn't reported is nil, and the rates between two samples of it.
//
// It may import libvirt. It must not know fleets, definitions or Terraform: which key a device has is told to it.
package stats
