// Package hosts is the data source virtfleet_hosts.
//
// It may import the fleet and the provider's shared packages; what is said of one host is for host.
package hosts
