// Package network manages virtual networks, their DHCP reservations and network filters on one or more hosts. Spec is
// what a definition says. A definition changes the XML on a host to what a configuration says, and preserves what Spec
// doesn't model. The package also determines which changes apply to an active network at once and which require a
// restart, and which VMs use the network.
//
// Start with spec.go (what a network is) and network.go (what is done to it on a host). filter.go and reservation.go
// are about network filters and DHCP reservations.
//
// It must not know Terraform, SSH or the fleet. The JSON names of Spec are those of the configuration.
package network
