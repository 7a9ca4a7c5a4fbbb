// Package hostset asks several hosts the same question at the same time, and distinguishes three answers: the host has
// the object, the host has no such object, or that is unknown because the host can't tell.
//
// It serves objects that exist on a set of hosts and aren't VMs: storage pools, images, volumes, secrets, networks. The
// fleet provides its hosts as a Set (fleet.Connections).
//
// A Creation is a host's record that a run is creating such an object. A Place is where an object was last, by the
// UUID of its host.
//
// It may import internal/libvirt only. It must not know what is asked, the fleet, SSH or Terraform.
package hostset
