// Package evacuationplan is the data source virtfleet_evacuation_plan.
package evacuationplan
