// Package networkdhcphost is the resource virtfleet_network_dhcp_host: one DHCP reservation, on every host that has its
// network.
//
// It may import the plugin framework, internal/network, hostset, libvirt's errors and the provider's shared packages.
package networkdhcphost
