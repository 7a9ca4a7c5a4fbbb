// Package fleetpolicy is what all policies of the fleet have in common as resources. A policy is kept in the record of
// every host. A host with a different copy is drift, and the next apply repairs it.
//
// It may import the plugin framework, the fleet and the provider's shared packages. It must not know what a policy
// says: each kind has a package of its own, with its schema and its mapping.
package fleetpolicy
