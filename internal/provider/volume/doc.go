// Package volume is the resource virtfleet_volume: a volume that outlives VMs.
//
// It may import the plugin framework, internal/storage, hostset and the provider's shared packages. How a volume is
// made, grown and kept from being removed while something uses it is internal/storage's.
package volume
