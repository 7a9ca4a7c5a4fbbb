// Package config reads the file that says which hosts there are, for commands that Terraform doesn't start. It has the
// attributes of the provider block, in YAML, and nothing else: the composition root reads and checks them as it does
// those that come from Terraform.
//
// It may import fleet. It must not know what an attribute means.
package config
