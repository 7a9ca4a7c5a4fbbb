// Package tfdiag is the one door from Go errors to Terraform diagnostics, so that every failure reads the same: what
// was tried, what happened, why, where, and what the reader can do.
//
// It may import the packages that declare kinds of errors and the plugin framework. It must not talk to a host, nor
// know a resource's schema beyond the path that it is given.
package tfdiag
