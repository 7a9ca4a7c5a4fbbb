// Package moving is what the parts of a configuration that move machines share: the block migration_options, which has
// one shape wherever it stands, migration_state, which says how a migration goes or went, and the blockers, which say
// what is in the way of one: their attributes, their types built once, and what they mean to the fleet.
//
// It may import the plugin framework, the options, records and blockers of the fleet's migrations and the provider's
// value types. It must not know who has the blocks.
package moving
