// Package moving is the block migration_options, which has one shape wherever it stands: its attributes, its type built
// once, and what the fleet is told.
//
// It may import the plugin framework, the options of the fleet's migrations and the provider's value types. It must not
// know who has the block.
package moving
