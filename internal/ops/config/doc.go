// Package config reads the file that lists the hosts, for commands that Terraform doesn't start. The file has the
// attributes of the provider block, in YAML, and nothing else: the composition root reads and checks them like those
// from Terraform.
//
// It may import fleet, and firstboot, which explains YAML without quoting it. It must not know what an attribute means.
package config
