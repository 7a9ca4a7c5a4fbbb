// Package onevm has the attributes that select the VM of a data source: virtual_machine_id or name.
//
// It may import the fleet, the plugin framework and the provider's value types. It must not know any data source.
package onevm
