// Package hostset asks several hosts the same question at the same time, and keeps apart the three answers that matter:
// a host has the object, a host has no such object, a host can't tell.
//
// It serves what lives on a set of hosts and isn't a VM: storage pools, images, volumes, secrets, networks. The fleet
// hands out its hosts as a Set (fleet.Connections).
//
// It may import internal/libvirt only. It must not know what is asked, the fleet, SSH or Terraform.
package hostset
