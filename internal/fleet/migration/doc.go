// Package migration migrates one VM between two hosts that its caller names. Before it tries anything, it reports what
// blocks the move in the VM and on the two hosts. Then it runs libvirt's live migration, watches the job, aborts it
// when it can't succeed or when told to, resumes a broken post-copy, and finds out where the VM is afterwards. For a
// stopped VM it copies the files. Package move calls it, and does everything that requires more than two hosts.
//
// Start with run.go: Run is one live migration. vm_blockers.go and target_blockers.go find blockers, monitor.go
// decides about a running job, outcome.go finds out where the VM is afterwards, and offline_copy.go copies the files of
// a stopped VM.
//
// It imports domain (what a definition says), libvirt (one host), fleet/policy, fleet/status for the type of blockers,
// and fleet/lease for work that remains after its caller's order has ended. It must not know the fleet. Its caller
// decides which VM may move, in which order, under which lock and with which reservations on the target, and takes care
// of autostart and stale definitions.
//
// The decisions are pure functions: the blockers of a definition and the monitor's verdict on each sample of the
// running job depend only on their input, with KubeVirt's reason codes, defaults and order of decisions.
package migration
