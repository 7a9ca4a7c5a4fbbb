// Package networkfilter is the resource virtfleet_network_filter: one network filter on every host that is listed.
//
// It may import the plugin framework, internal/network, hostset, libvirt's errors and the provider's shared packages.
// libvirt writes a filter in its own way, so what each host printed after the last apply is kept in the private state,
// as a digest: what it prints otherwise is drift.
package networkfilter
