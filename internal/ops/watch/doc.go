// Package watch shows a fleet while it lives: migrations that run, with their progress, and changes of the
// VMs' status and conditions, with the time they happened and how long it had been as before. On a terminal the
// migrations are drawn anew below the changes; elsewhere all is lines.
//
// Each host is asked in one call and tick for all its VMs, at once when it tells of an event, and once more for
// each migration that leaves it. Hosts are asked by themselves: a silent one costs only what it knows. What is shown is
// made of one model by pure functions.
//
// It may import fleet and what is below it. It must not know how hosts are reached.
package watch
