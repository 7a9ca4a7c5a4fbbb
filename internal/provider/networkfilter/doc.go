// Package networkfilter is the resource virtfleet_network_filter: one network filter on every host that is listed.
//
// It may import the plugin framework, internal/network, hostset, libvirt's errors and the provider's shared packages.
// libvirt writes a filter in its own form. So the private state keeps a digest of each host's definition after the last
// apply, and a definition with another digest is drift.
package networkfilter
