// Package expiry has contexts whose time is over when a test says so, not when a busy machine gets to it.
//
// It may import the standard library alone, and is for tests.
package expiry

import (
	"context"
	"sync"
	"testing"
)

// Context returns a context that ends with context.DeadlineExceeded when expire is called, at the latest when the test
// ends. It doesn't say beforehand that it has a deadline.
func Context(t testing.TB) (ctx context.Context, expire func()) {
	t.Helper()
	e := expiring{context.WithoutCancel(t.Context()), make(chan struct{})}
	expire = sync.OnceFunc(func() { close(e.over) })
	t.Cleanup(expire)
	return e, expire
}

type expiring struct {
	context.Context //nolint:containedctx // It is one.

	over chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
