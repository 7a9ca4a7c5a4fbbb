// Package hosts is the data source virtfleet_hosts.
//
// It may import the fleet and the provider's shared packages. The package host describes a single host.
package hosts
