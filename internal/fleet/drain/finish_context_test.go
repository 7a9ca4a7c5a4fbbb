package drain

import (
	"context"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
)

// What follows a step has the time of a query to hosts that don't answer, but only little more than the drain itself.
func TestFinishContext(t *testing.T) {
	t.Parallel()

	in := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)

		return ctx
	}
	interrupted, interrupt := context.WithCancel(in(time.Hour))
	interrupt()

	for name, tt := range map[string]struct {
		ctx  context.Context //nolint:containedctx // what is tested
		want time.Duration
	}{
		"without a deadline":      {t.Context(), inventory.FinishTimeout},
		"long before it":          {in(time.Hour), inventory.FinishTimeout},
		"long after it":           {in(-time.Hour), lease.Grace},
		"interrupted long before": {interrupted, lease.Grace},
	} {
		began := time.Now()
		ctx, cancel := finishContext(tt.ctx)
		until, limited := ctx.Deadline()

		if !limited || until.Before(began.Add(tt.want)) || until.After(time.Now().Add(tt.want)) || ctx.Err() != nil {
			t.Errorf("%s: until %v, %v, want %v from %v on", name, until, ctx.Err(), tt.want, began)
		}

		cancel()
	}

	soon := in(10 * time.Second)
	deadline, _ := soon.Deadline()
	began := time.Now()

	ctx, cancel := finishContext(soon)
	defer cancel()

	took := time.Since(began)
	if until, _ := ctx.Deadline(); until.Before(deadline.Add(lease.Grace)) ||
		until.After(deadline.Add(lease.Grace+took)) && took < 10*time.Second {
		t.Errorf("shortly before a deadline: until %v, want %v after %v", until, lease.Grace, deadline)
	}
}
