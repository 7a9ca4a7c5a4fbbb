// Package move moves a VM to another host of the fleet, whether it runs or is off. It finds every blocker, queues the
// move, locks the VM on both hosts, reserves memory and disk space on the target, records the move, and completes moves
// whose run was killed.
//
// A move is the fleet's operation: order.go carries out a virtfleet_migration, move.go a change of host or a drain's
// step, cold.go copies a stopped VM. A migration is the operation between two hosts: the checks of both, the call to
// libvirt, its job. That is package migration.
//
// Start with move.go and find_blockers.go. Most tests require the lab, and are in internal/fleet.
//
// It imports inventory (where the VM is), records (locks, policies, metadata), placement (capacity of the target),
// migration (two hosts), admission (the order of moves), and storage. It must not know why a VM moves: an order, a
// change of its configuration and a drain all call the same functions.
package move
