// Package stats interprets libvirt's counters of a VM: it has one model of the VM's processors, memory, disks and
// interfaces, in which values that weren't reported are nil, and computes the rates between two samples.
//
// It may import libvirt. It must not know fleets, definitions or Terraform: its callers tell it the keys of devices.
package stats
