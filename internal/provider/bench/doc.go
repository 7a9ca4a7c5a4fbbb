// Package bench measures what a plan of many VMs costs, their placement, a live migration, a drain, the upload of an
// image, and the way from an image to a VM whose agent answers: "make bench" prints a table of each.
//
// What is compared runs alternately in one go, and medians are compared, so that a busy or slow computer changes
// the seconds but hardly the ratios. Each plan is Terraform as people run it, with the released provider in a process
// of its own and the VMs on real hosts. Nothing here passes or fails on a clock.
//
// Only this package's own benchmarks run in it; it may import what acceptance tests import.
package bench
