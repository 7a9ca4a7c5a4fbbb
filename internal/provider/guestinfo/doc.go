// Package guestinfo is the data source virtfleet_guest_info.
//
// It may import the fleet, types of guest and libvirt, and the provider's shared packages. An agent that doesn't answer
// is not an error. The guest's operating system is exported, because conditions has it, too.
package guestinfo
