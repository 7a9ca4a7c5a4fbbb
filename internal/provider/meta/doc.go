// Package meta has what the provider passes to its resources and data sources: the fleet and the settings of the
// provider block (Data), and what Terraform has sent, planned and written in this run (Managed, Volumes, Planned,
// Written), by which the plan or the destroy of one resource knows of another's. Every resource and data source embeds
// Resource or DataSource, which connect it to the provider. The package also keeps entries in the private state.
//
// Start with data.go.
//
// It may import the fleet, the plugin framework and tfdiag. It must not know the provider block's schema nor any
// resource: the provider fills it, and resources read it.
package meta
