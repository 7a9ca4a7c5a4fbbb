// Package migration is the resource virtfleet_migration: one order to move a VM, carried out once, and how it went.
//
// It may import the fleet, the record of a migration from domain, the plugin framework and the provider's small
// packages. It must not talk to a host, nor decide anything about how VMs are moved: that is the fleet's.
package migration
