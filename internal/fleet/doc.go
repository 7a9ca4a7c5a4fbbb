// Package fleet runs VMs on a set of hosts as if it were one: it places, creates,
// changes, starts, stops, moves, awaits and removes them, drains hosts, and makes
// sure that no other run does so at the same time.
//
// Its rooms, bottom to top, are inventory (the hosts and what they said), records
// (locks, and what is kept on a host), placement (where a VM fits), migrate (one VM
// to another host) and observe (how VMs and hosts are). None imports one above it.
// Fleet embeds what each of them offers; what it does itself, which is to create,
// change, stop, remove and drain, is still here. It must not know Terraform, nor SSH:
// a host comes with a function that opens streams to it.
//
// A plan reads the inventory's snapshot. Whatever changes a VM asks all hosts
// again first, for that VM alone.
package fleet
