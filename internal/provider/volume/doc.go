// Package volume is the resource virtfleet_volume: a volume that outlives VMs.
//
// It may import the plugin framework, internal/storage, hostset and the provider's shared packages. internal/storage
// creates a volume, grows it, and refuses to remove it while something uses it.
package volume
