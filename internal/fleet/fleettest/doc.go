// Package fleettest is what the tests of package fleet and of those below it share: fleets of the lab's hosts, VMs that
// cost little, and checks of where a VM is.
//
// It imports lab, and of the fleet inventory, placement and migration. It must not import package fleet, whose own
// tests import it: the fleet that a test opened is handed in.
package fleettest
