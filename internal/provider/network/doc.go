// Package network is the resource virtfleet_network: one network on every host that is listed.
//
// It may import the plugin framework, internal/network, hostset, libvirt's errors and the provider's shared packages.
// What a definition says, and what an active network takes on, is internal/network's; here is what Terraform plans.
package network
