// Package provider is the Terraform provider: the provider block, its validation, and the one place where the layers
// below are put together. Each resource and data source lives in a folder of its own below it.
//
// It may import everything. Nothing may import it but main and tests.
package provider
