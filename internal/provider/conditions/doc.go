// Package conditions is the data source virtfleet_conditions.
package conditions
