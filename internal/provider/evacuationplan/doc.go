// Package evacuationplan is the data source virtfleet_evacuation_plan.
//
// It may import fleet/evacuation and the provider's shared packages; evacuationsteps has the attributes of the steps.
// It must not decide anything: the fleet makes the plan.
package evacuationplan
