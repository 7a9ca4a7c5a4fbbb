// Package onevm is how a data source about one VM is told which one: by virtual_machine_id or by name.
//
// It may import the fleet, the plugin framework and the provider's value types. It must not know any data source.
package onevm
