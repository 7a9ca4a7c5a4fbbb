// Package guestinfo is the data source virtfleet_guest_info.
package guestinfo
