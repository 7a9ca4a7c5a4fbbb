// Package domainstats is the data source virtfleet_domain_stats.
package domainstats
