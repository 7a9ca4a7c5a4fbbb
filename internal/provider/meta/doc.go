// Package meta is what the provider hands to its resources and data sources once it is configured, and what all of them
// do alike: ask for it, and keep what is only their business in the private state.
//
// It may import the fleet, the plugin framework and tfdiag. It must not know the provider block's schema nor any
// resource: the provider fills it, resources read it.
package meta
