// Package migrate moves a VM from one host to another, under its lock on both: it finds what blocks the move, waits for
// its turn, keeps room on the target, records what it does before it does it, and brings to an end what a run that was
// killed left. What runs between the two hosts is package migration's.
//
// It imports inventory (where the VM is), records (locks, policies, metadata), placement (room on the target),
// migration (two hosts), admission (who goes when), and storage. It must not know why a VM is moved: an order, a change
// of its configuration and a drain all call the same functions.
package migrate
