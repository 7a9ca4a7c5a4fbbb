// Package attrpath formats attribute paths for users, in messages and in the positions that Terraform shows.
//
// It may import the plugin framework's paths and diagnostics and nothing else. It must not know any schema.
package attrpath
