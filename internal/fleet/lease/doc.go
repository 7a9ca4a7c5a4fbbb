// Package lease decides which run may change a VM or a host: one run at a time, of all runs that reach the host. A
// lease is a libvirt secret on the host: no two runs can define a secret with the same usage id. Its holder renews it.
// A run that sees it unchanged for long enough takes it over, because a killed run can't release it.
//
// Start with lease.go: Keeper.Take and Held. take.go takes over the lease of a killed run. shared.go is for operations
// of one run that hold a lease together.
//
// Two runs never change the same object at the same time, however long one of them was suspended (a stopped process, a
// suspended laptop, a broken link):
//
//   - The holder counts from the last successful renewal. After Validity, nothing is changed under the lease before it
//     is renewed once more. Every call that changes something checks this right before it is made (libvirt.Guarded).
//   - A run that takes a lease over removes nothing, because it may be suspended before the removal: it defines a
//     successor, a secret whose usage id names the UUID of the abandoned one. Then it waits for longer than Validity.
//     An owner that still runs sees the successor at its next renewal; an owner that can't renew has stopped by then.
//   - Only a holder whose lease is valid removes secrets, the root first: a chain without its root is no lease.
//   - Only answered reads of an unchanged lease count, so that an owner doesn't lose it while the daemon is restarted.
//   - A killed run leaves many leases. Who waits for one of them reads the others meanwhile, see ahead.go. Each is
//     judged by its own reads: an owner that doesn't reach one host may reach another. Nothing but reads is done ahead.
//
// No clocks of different computers are compared. One case remains: a call that was already on its way to the host when
// its run was suspended. The margin over Validity covers such calls.
//
// A context from Take carries its leases. It ends with the operation that it serves, or when a lease is lost;
// context.Cause distinguishes the two: a lost lease is an *Error of kind ErrLost. CleanupContext is for the cleanup
// after the operation has ended.
//
// It imports libvirt, which stores the secrets and makes the calls, and fleet/admission. It must not know what is
// changed.
package lease
