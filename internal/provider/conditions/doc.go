// Package conditions is the data source virtfleet_conditions.
//
// It may import the fleet and fleet/status, guestinfo and evacuation for the types that they share, and the provider's
// shared packages. It must not decide what a condition says: fleet/status does.
package conditions
