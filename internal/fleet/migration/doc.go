// Package migration moves one VM from one host to another: it says what blocks the move before anything is tried,
// runs the migration, watches it, aborts it when it can't work or when it is told to, and finds out where the VM
// is afterwards.
//
// It imports domain (what a definition says), libvirt (one host), fleet/policy, fleet/status for what a blocker is, and
// fleet/lease for what has to be done when its caller's order has ended. It must not know the fleet: who may move, in
// which order, under which lock and with how much room on the target is decided by its caller, and so must the caller
// do what surrounds a migration, such as autostart and leftover definitions.
//
// What decides is pure: the blockers of a definition and the monitor's verdict on each sample of the running job are
// functions of their input, with KubeVirt's reason codes, defaults and order of decisions.
package migration
