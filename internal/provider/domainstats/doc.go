// Package domainstats is the data source virtfleet_domain_stats.
//
// It may import the fleet, stats and the provider's shared packages, and libvirt for the names of what a host counts.
// It must not look for a VM itself. A field's attribute and the source of its value are in one place, see field.go.
package domainstats
