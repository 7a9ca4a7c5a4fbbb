// Package evacuationplan is the data source virtfleet_evacuation_plan.
//
// It may import fleet/evacuation and the provider's shared packages; evacuationsteps has the shape of its steps. It
// must not decide anything: the plan is made by the fleet.
package evacuationplan
