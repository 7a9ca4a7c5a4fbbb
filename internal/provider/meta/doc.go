// Package meta is what the provider passes to its resources and data sources once it is configured, and what all of
// them do alike: use that data, and keep entries in the private state.
//
// It may import the fleet, the plugin framework and tfdiag. It must not know the provider block's schema nor any
// resource: the provider fills it, and resources read it.
package meta
