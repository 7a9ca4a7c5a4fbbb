// Package hosts is the data source virtfleet_hosts.
package hosts
