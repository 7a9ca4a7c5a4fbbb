// Package hostmaintenance is the resource virtfleet_host_maintenance: a host that accepts no VMs and has been drained.
//
// It may import the plugin framework, the fleet, the steps of fleet/evacuation and the provider's shared packages. The
// resource exists while the host's own record says so.
package hostmaintenance
