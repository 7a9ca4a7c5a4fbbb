// Package host is the data source virtfleet_host, and the description of a host that virtfleet_hosts shares.
//
// It may import the fleet, libvirt's facts about a host, and the provider's shared packages. It must not ask a host
// itself.
package host
