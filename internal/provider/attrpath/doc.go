// Package attrpath is how attributes are called where people read of them: in messages, and where Terraform points to.
//
// It may import the plugin framework's paths and diagnostics and nothing else. It must not know any schema.
package attrpath
