package virtualmachine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TestGrace_longerThanTheLimit: a limit that ends before the grace period does is warned of, and is what the error says
// about a guest that was still shutting down. A longer one isn't.
func TestGrace_longerThanTheLimit(t *testing.T) {
	t.Parallel()
	for limit, short := range map[string]bool{"6s": true, "10s": true, "11s": false} {
		m := modelOf(t, minimal.with(in{
			"termination_grace_period": "10s", "timeouts": in{"update": limit, "create": "1s"},
		}))
		warned := m.warnOfGrace(t.Context())
		if (len(warned) == 1) != short || warned.HasError() {
			t.Errorf("%s: %v", limit, warned)
		}
		after, err := time.ParseDuration(limit)
		if err != nil {
			t.Fatal(err)
		}
		ended := &tfdiag.LimitError{Attribute: "timeouts.update", After: after}
		for kind, is := range map[error]bool{fleet.ErrNotReady: true, context.DeadlineExceeded: false} {
			f := m.withinGrace(tfdiag.Failure{Err: &fleet.Error{Kind: kind, Err: ended}, Limit: ended})
			detail := f.Error().Detail()
			if strings.Contains(detail, "Make timeouts.update longer than termination_grace_period") != (short && is) {
				t.Errorf("%s, %v: %s", limit, kind, detail)
			}
		}
	}
	if warned := modelOf(t, minimal.with(in{"timeouts": in{"update": "1s"}})).warnOfGrace(t.Context()); len(warned) > 0 {
		t.Errorf("without a grace period: %v", warned)
	}
}
