// Package guest asks the guest agent of one VM about the guest, in bounded time.
//
// An agent is a program of the guest: it may be missing, old, restricted or hung. So a missing answer is never an error
// here. Unknown values stay nil, and the report says why.
//
// It may import libvirt. It must not know the fleet, domain XML or Terraform.
package guest
