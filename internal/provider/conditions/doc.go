// Package conditions is the data source virtfleet_conditions.
//
// It must not decide what a condition says: fleet/status does.
package conditions
