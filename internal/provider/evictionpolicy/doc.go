// Package evictionpolicy is the resource virtfleet_eviction_policy: how the VMs that a selector matches are evicted.
//
// It may import the plugin framework, the fleet, the rules of fleet/evacuation and the provider's shared packages.
// fleetpolicy keeps the policies on the hosts; this package defines what a policy says.
package evictionpolicy
