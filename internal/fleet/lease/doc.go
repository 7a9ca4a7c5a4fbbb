// Package lease says who may change a VM or a host: one run at a time, of all that reach the host. A lease is a libvirt
// secret on the host, whose usage id no two runs can define. Its holder renews it; a run that sees it unchanged for
// long enough takes it over, as a killed run can't give it back.
//
// Of two runs never do both change something, however long one of them stood still (a stopped process, a suspended
// laptop, a cut link):
//
//   - The holder counts from the last renewal that succeeded. After Validity nothing is changed through the lease
//     before it is renewed once more. Every call that changes something asks right before it is made
//     (libvirt.Guarded).
//   - A run that takes a lease over removes nothing, since it may be frozen before it does: it defines a successor, a
//     secret whose usage id names the UUID of the one that was left behind. Then it waits for longer than Validity. An
//     owner that lives sees the successor at its next renewal; one that can't renew has stopped by then.
//   - Only a holder whose lease is valid removes secrets, the root first: a chain without its root is no lease.
//   - Only answered looks at an unchanged lease count, so that an owner doesn't lose it while the daemon is restarted.
//
// No clocks of different computers are compared. What is left is a call that was on its way to the host already when
// its run stood still: the margin over Validity is for those.
//
// A context from Take carries its leases. It ends with the order that it serves, or when a lease is lost; context.Cause
// tells which: a lost lease is an *Error of kind ErrLost. CleanupContext is for what has to be done when the order has
// ended.
//
// It imports libvirt, which keeps the secrets and makes the calls, and fleet/admission. It must not know what is
// changed.
package lease
