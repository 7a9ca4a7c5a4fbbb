// Package virtualmachines is the data source virtfleet_virtual_machines.
//
// It may import the fleet, fleet/status and the provider's shared packages. It must not ask more of a host than one
// reading tells, however many VMs there are.
package virtualmachines
