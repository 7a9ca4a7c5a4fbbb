// Package demo tells the story of the provider: two hosts, one VM, moved by hand, found again,
// moved by its configuration, and evacuated from a host that is drained.
//
// It drives Terraform and virsh as a person would, on a lab of its own, and knows the provider only by what Terraform
// says. It may import the lab.
package demo
