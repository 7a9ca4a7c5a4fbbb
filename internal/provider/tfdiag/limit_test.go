package tfdiag_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TestFailure_saysWhichLimitWasReached proves that an operation which ran out of time names the attribute that limits
// it, once, keeps what was seen last, and says what took longer than that.
func TestFailure_saysWhichLimitWasReached(t *testing.T) {
	t.Parallel()
	const limit = "The limit of timeouts.create, which is 1ms, was reached."
	ctx, cancel := tfdiag.Limited(t.Context(), "timeouts.create", time.Millisecond)
	defer cancel()
	<-ctx.Done()
	late := context.Cause(ctx)
	for name, tt := range map[string]struct {
		err  error
		took time.Duration
		says []string
	}{
		"bare":    {err: ctx.Err(), says: []string{limit}},
		"its own": {err: late, says: []string{limit}},
		"a call":  {err: call(context.DeadlineExceeded, "context deadline exceeded"), says: []string{limit}},
		"wrapped": {
			err:  &fleet.Error{VM: "web", Detail: "it was not moved; last seen: 5 MiB remained", Err: ctx.Err()},
			says: []string{limit, "last seen: 5 MiB remained"},
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
