// Package guestinfo is the data source virtfleet_guest_info.
//
// It may import the fleet, what guest and libvirt name, and the provider's shared packages. It must not take an agent
// that doesn't answer for an error. What it shares with conditions, the guest's operating system, is exported.
package guestinfo
