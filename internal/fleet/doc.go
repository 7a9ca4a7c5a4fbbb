// Package fleet runs VMs on a set of hosts as if it were one host: it places, creates, changes, starts, stops, moves,
// awaits and removes them, drains hosts, and makes sure that no two runs change a VM at the same time.
//
// It is a facade: Fleet embeds what each package below it offers, New puts these together, and names.go has the names
// that importers use most. The packages, bottom to top, are inventory (the hosts and their answers), records (locks,
// and what is kept on a host), placement (where a VM fits), move (one VM to another host), observe (the state of VMs
// and hosts), lifecycle (create, change, start, stop, delete) and drain (a host without VMs). None imports one above
// it. Package fleet must not know Terraform, nor SSH: a host comes with a function that opens streams to it.
//
// A plan reads the inventory's snapshot. An operation that changes a VM first asks all hosts again, about that VM
// alone.
package fleet
