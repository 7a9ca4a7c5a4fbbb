// Package bench measures plans of many VMs, their placement, a live migration, a drain, the upload of an image, and the
// time from an image to a VM whose agent answers. "make bench" prints a table of each.
//
// Alternatives run by turns in one benchmark, and their medians are compared. So a busy or slow computer changes the
// seconds but hardly the ratios. Each plan runs Terraform as users run it, with the released provider in a process of
// its own and the VMs on real hosts. Nothing here passes or fails because of a duration.
//
// Only this package's own benchmarks run in it. It may import what acceptance tests import.
package bench
