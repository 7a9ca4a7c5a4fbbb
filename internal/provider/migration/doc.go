// Package migration is the resource virtfleet_migration: one order to move a VM, carried out once, and its result.
//
// It may import the fleet, the record of a migration from domain, the plugin framework and the provider's small
// packages. It must not talk to a host or decide how VMs are moved: the fleet does.
package migration
