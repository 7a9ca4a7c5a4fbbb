// Package migrationoptions has what all parts of a configuration that move VMs share: the attributes migration_options,
// migration_state and blockers, their types, and their mapping to the fleet.
//
// It may import the plugin framework, the options, records and blockers of the fleet's migrations and the provider's
// value types. It must not know which resource or data source uses the blocks.
package migrationoptions
