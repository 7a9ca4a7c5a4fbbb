// Package evictionpolicy is the resource virtfleet_eviction_policy: how the VMs that a selector picks are evicted.
//
// It may import the plugin framework, the fleet, the rules of fleet/evacuation and the provider's shared packages.
// fleetpolicy keeps the policies on the hosts; here is what one says.
package evictionpolicy
