package libvirt

import "context"

// Guard allows a call that changes something, or returns why it is refused. The context is that of the call.
type Guard func(ctx context.Context) error

type guardKey struct{}

// Guarded returns a context in which every call that changes something on a host asks the guard first, right before the
// call. The guard's error is returned as it is. A nil guard allows everything; it replaces an earlier guard.
func Guarded(ctx context.Context, guard Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, guard)
}

// checkGuard asks the guard of ctx, if there is one, whether the call may be made.
func (s callSpec) checkGuard(ctx context.Context) error {
	if guard, _ := ctx.Value(guardKey{}).(Guard); guard != nil && s.writes {
		return guard(ctx)
	}
	return nil
}
