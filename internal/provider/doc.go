// Package provider is the Terraform provider: the provider block, its validation, and the one place where the layers
// below are put together. Each resource and data source has a folder of its own below it.
//
// It may import everything. Only main and tests may import it.
package provider
