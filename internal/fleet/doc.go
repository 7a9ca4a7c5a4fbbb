// Package fleet runs VMs on a set of hosts as if it were one: it places, creates,
// changes, starts, stops, moves, awaits and removes them, drains hosts, and makes
// sure that no other run does so at the same time.
//
// It imports inventory (the hosts and what they said), hostrecord (what is kept on
// a host), domain (what a definition says), guest and stats (what a guest and its
// counters say), libvirt (one host), and the packages below it, which decide or
// wait and don't know it. It must not know Terraform, nor SSH: a host comes with a
// function that opens streams to it.
//
// A plan reads the inventory's snapshot. Whatever changes a VM asks all hosts
// again first, for that VM alone.
package fleet
