// Package evacuationsteps has the attributes of an evacuation's steps, which a data source plans and a maintenance
// follows, and of the rule for one VM. The steps are the same type in both.
//
// It may import the plugin framework, fleet/evacuation and the provider's value types and names of migrationoptions. It
// must not know which resource or data source uses it.
package evacuationsteps
