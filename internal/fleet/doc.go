// Package fleet runs virtual machines on a set of hosts as if it were one: it
// finds a machine wherever it is, places new ones, changes, starts, stops,
// awaits and removes them, and makes sure that nobody else does so meanwhile.
//
// It imports domain (what a definition says), guest and stats (what a guest
// and its counters say), libvirt (one host), and the packages below it, which
// decide or wait and don't know it. It must not know Terraform, nor SSH: a host comes
// with a function that opens streams to it.
//
// Two ways of reading run through the package. A plan reads the snapshot: every
// host asked once, in bulk, and shared by all who read at that time. Whatever
// changes a machine asks the whole fleet again first, for that machine alone.
package fleet
