package tfdiag_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestFailure_saysWhichLimitWasReached proves that an operation which ran out of time names the attribute that limits
// it, once, keeps what was seen last, and says what took longer than that.
func TestFailure_saysWhichLimitWasReached(t *testing.T) {
	t.Parallel()
	const limit = "The limit of timeouts.create, which is 1ms, was reached."
	const raise = "raise timeouts.create."
	ctx, cancel := tfdiag.Limited(t.Context(), "timeouts.create", time.Millisecond)
	defer cancel()
	<-ctx.Done()
	late := context.Cause(ctx)
	for name, tt := range map[string]struct {
		err  error
		took time.Duration
		says []string
	}{
		"bare":    {err: ctx.Err(), says: []string{limit, raise}},
		"its own": {err: late, says: []string{limit, raise}},
		"a call":  {err: call(context.DeadlineExceeded, "context deadline exceeded"), says: []string{limit, raise}},
		"wrapped": {
			err:  &fleet.Error{VM: "web", Detail: "it was not moved; last seen: 5 MiB remained", Err: ctx.Err()},
			says: []string{limit, "last seen: 5 MiB remained", raise},
		},
		"told already": {
			err:  &fleet.Error{Host: "kvm1", Detail: fmt.Sprintf("%v; not done are:\n  - web", late)},
			took: 30 * time.Second,
			says: []string{"was reached; not done are:\n  - web", "broken off and cleaned up, which took 30.0s"},
		},
	} {
		got := tfdiag.Failure{Verb: "x", Noun: "x", Err: tt.err, Elapsed: tt.took}.Within(ctx).Error().Detail()
		for _, part := range tt.says {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in:\n%s", name, part, got)
			}
		}
		if strings.Contains(got, "context deadline") || strings.Count(strings.ToLower(got), "timeouts.create, which") != 1 {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	other := tfdiag.Failure{Verb: "x", Noun: "x", Err: call(fleet.ErrBusy, "busy")}.Within(ctx).Error().Detail()
	if strings.Contains(other, "timeouts.create") {
		t.Errorf("what failed for another reason: %s", other)
	}
}

// TestFailure_callEndedByLimit: a call that the user's limit ended says so on its own, and doesn't advise to wait for
// another operation or to bring the host back. If another run holds the lock, the advice is about that run.
func TestFailure_callEndedByLimit(t *testing.T) {
	t.Parallel()
	late := &tfdiag.LimitError{Attribute: "timeouts.update", After: time.Minute}
	for _, kind := range []error{libvirt.ErrBusy, libvirt.ErrUnreachable} {
		err := &libvirt.Error{
			Host: "kvm1", Operation: "starting network lan", Kind: kind, Err: fmt.Errorf("no answer for 1m0s: %w", late),
		}
		got := tfdiag.Failure{Verb: "x", Noun: "x", Err: err}.Error().Detail()
		const want = "No answer for 1m0s: the limit of timeouts.update, which is 1m0s, was reached.\n\n" +
			"Host: kvm1\nOperation: starting network lan\n\n" +
			"If the operation is only slow, raise timeouts.update. If the host doesn't answer, check that it is up. " +
			"Apply again to continue: finished work is recognized."
		if got != want {
			t.Errorf("%v:\n%s\nwant:\n%s", kind, got, want)
		}
	}
	begun := &fleet.Error{
		VM: "web", Detail: "creating disk \"root\"", Err: fmt.Errorf("%w: %w", storage.ErrIncompleteInTime, late),
	}
	got := tfdiag.Failure{Verb: "x", Noun: "x", Err: begun}.Error().Detail()
	says := strings.Contains(got, "raise timeouts.update to more than twice that time")
	if !says || strings.Contains(got, "recognized") {
		t.Errorf("a disk that is made again each time: %s", got)
	}
	locked := &fleet.Error{VM: "web", Kind: fleet.ErrLocked, Detail: "alice@desk is updating it", Err: late}
	if got := (tfdiag.Failure{Verb: "x", Noun: "x", Err: locked}).Error().Detail(); strings.Contains(got, "raise") {
		t.Errorf("another run is at work: %s", got)
	}
}
