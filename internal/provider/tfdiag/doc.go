// Package tfdiag is the only way from Go errors to Terraform diagnostics, so that all failures have the same form: what
// was tried, what happened, why, where, and what the user can do.
//
// It may import the packages that declare kinds of errors and the plugin framework. It must not talk to a host, nor
// know a resource's schema beyond the path that it is given.
package tfdiag
