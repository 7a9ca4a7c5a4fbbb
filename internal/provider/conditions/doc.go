// Package conditions is the data source virtfleet_conditions.
//
// It may import the fleet and fleet/status, guestinfo and evacuation for the shapes that they have in common, and the
// provider's shared packages. It must not judge anything itself: what a condition says is for fleet/status.
package conditions
