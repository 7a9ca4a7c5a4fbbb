// Package evacuationsteps is the shape of an evacuation's steps, which is one in the plan that a data source makes and
// in the maintenance that follows it, and of the rule for one VM.
//
// It may import the plugin framework, fleet/evacuation and the provider's value types and names of migrationoptions. It
// must not know who has them.
package evacuationsteps
