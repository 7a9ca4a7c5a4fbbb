package libvirt

import "context"

// Guard allows a call that changes something, or says why it must not be made. The context is that of the call.
type Guard func(ctx context.Context) error

type guardKey struct{}

// Guarded returns a context in which every call that changes something on a host asks the guard first, right before it
// is made. The guard's error is returned as it is. A nil guard allows everything; it takes the place of an earlier one.
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
