// Package fleetpolicy is what all resources share that are policies of the fleet: one is kept in the record of every
// host, what differs there is drift, and the next apply repairs it.
//
// It may import the plugin framework, the fleet and the provider's shared packages. It must not know what a policy
// says: each kind has a package of its own, with its schema and the mapping of what it says.
package fleetpolicy
