// Package migrationpolicy is the resource virtfleet_migration_policy: how the VMs that a selector matches are moved.
//
// It may import the plugin framework, the fleet, the options of fleet/migration and the provider's shared packages.
// fleetpolicy keeps the policies on the hosts; this package defines what a policy says.
package migrationpolicy
