// Package virtualmachines is the data source virtfleet_virtual_machines.
//
// It may import the fleet, fleet/observe, fleet/status and the provider's shared packages. However many VMs there are,
// it must not ask a host for more than one bulk read returns.
package virtualmachines
