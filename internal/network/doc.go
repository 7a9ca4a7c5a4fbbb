// Package network is virtual networks, their DHCP reservations and network filters on one host or many: what a
// definition says (Spec), how the XML on a host becomes what a configuration says without losing what it doesn't model
// (Definition), what of a change an active network takes on at once and what needs its restart, and which VMs use it.
//
// It may import internal/libvirt, internal/hostset and internal/domain (for the interfaces of VMs). It must not know
// Terraform, SSH or the fleet. The JSON names of Spec are those that users write.
package network
