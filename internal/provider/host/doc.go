// Package host is the data source virtfleet_host, and the description of a host that virtfleet_hosts shares.
package host
