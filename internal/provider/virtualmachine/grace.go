package virtualmachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// A guest that ignores the shutdown is forced off at the end of its grace period. Each apply starts that period again,
// so none comes to its end if the limit of the operation ends before.

// warnOfGrace warns of limits in timeouts that end before the grace period does, as far as both are set.
func (m *model) warnOfGrace(ctx context.Context) (diags diag.Diagnostics) {
	if !isSet(m.TerminationGracePeriod) {
		return nil
	}
	grace := m.TerminationGracePeriod.Or(fleet.DefaultGracePeriod)
	for name, limit := range map[string]func(context.Context, time.Duration) (time.Duration, diag.Diagnostics){
		"update": m.Timeouts.Update, "delete": m.Timeouts.Delete,
	} {
		const none = time.Duration(-1)
		if after, d := limit(ctx, none); !d.HasError() && after != none && after <= grace {
			diags.AddAttributeWarning(path.Root("timeouts").AtName(name), "Timeout ends before the grace period",
				beforeGrace("timeouts."+name, after, grace))
		}
	}
	return diags
}

// withinGrace returns the failure with the remedy that the limit which ended it has to be longer, if the guest was
// still shutting down and the limit ends before the grace period does.
func (m *model) withinGrace(f tfdiag.Failure) tfdiag.Failure {
	grace := m.TerminationGracePeriod.Or(fleet.DefaultGracePeriod)
	limit, reached := errors.AsType[*tfdiag.LimitError](f.Limit)
	if reached && errors.Is(f.Err, fleet.ErrNotReady) && limit.After <= grace {
		f.Remedy = beforeGrace(limit.Attribute, limit.After, grace)
	}
	return f
}

func beforeGrace(attribute string, after, grace time.Duration) string {
	return fmt.Sprintf("%s is %s and termination_grace_period is %s, which each apply starts again. A guest "+
		"that ignores the shutdown is never forced off.\n\nMake %[1]s longer than termination_grace_period, then apply.",
		attribute, after, grace)
}
