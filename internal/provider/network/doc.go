// Package network is the resource virtfleet_network: one network on every host that is listed.
//
// It may import the plugin framework, internal/network, hostset, libvirt's errors and the provider's shared packages.
// internal/network knows what a definition says, and which changes an active network accepts; this package plans for
// Terraform.
package network
