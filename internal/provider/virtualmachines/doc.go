// Package virtualmachines is the data source virtfleet_virtual_machines.
package virtualmachines
