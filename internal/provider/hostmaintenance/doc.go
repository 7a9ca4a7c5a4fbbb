// Package hostmaintenance is the resource virtfleet_host_maintenance: a host that takes no VMs and has been drained.
//
// It may import the plugin framework, the fleet, the steps of fleet/evacuation and the provider's shared packages. What
// it says is true as long as the host's own record says so.
package hostmaintenance
