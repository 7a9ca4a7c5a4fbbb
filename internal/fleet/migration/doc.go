// Package migration migrates one VM between two hosts that are handed to it. Before anything is tried it says what of
// the VM and of the two hosts blocks that; then it runs libvirt's live migration, watches the job, aborts it when it
// can't work or when it is told to, resumes a broken post-copy, and finds out where the VM is afterwards. Of a VM that
// is off it copies the files. Package move calls it, and does all that takes more than two hosts.
//
// It imports domain (what a definition says), libvirt (one host), fleet/policy, fleet/status for what a blocker is, and
// fleet/lease for what has to be done when its caller's order has ended. It must not know the fleet: who may move, in
// which order, under which lock and with which reservations on the target is decided by its caller, and so must the
// caller do what surrounds a migration, such as autostart and leftover definitions.
//
// What decides is pure: the blockers of a definition and the monitor's verdict on each sample of the running job are
// functions of their input, with KubeVirt's reason codes, defaults and order of decisions.
package migration
