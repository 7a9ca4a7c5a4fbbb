package networkdhcphost

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// recordPlan records the planned reservation for the plans of others. owned says that the resource has it already. It
// returns the others that were planned earlier, and the errors of those that hold because this one is kept.
func (r *hostResource) recordPlan(
	plan, state *model, owned, kept bool,
) (earlier []meta.PlannedReservation, errors diag.Diagnostics) {
	if r.Data.Unknown {
		return nil, nil
	}
	before := ""
	if state.Network.ValueString() != "" {
		before = state.key()
	}
	planned := meta.PlannedReservation{DHCPHost: plan.reservation(), Owned: owned, Kept: owned && kept}
	if !plan.Network.IsUnknown() && !plan.MAC.IsUnknown() && !plan.DUID.IsUnknown() {
		planned.ID, planned.Network = plan.key(), plan.Network.ValueString()
	}
	earlier, waiting := r.Data.Reservations.Plan(planned, before)
	for _, d := range waiting {
		errors.AddError(d.Summary(), d.Detail()+fmt.Sprintf("\n\nTerraform shows this error with the resource that has "+
			"%s and keeps it: that one was planned last.", planned.ID))
	}
	return earlier, errors
}

// checkPlanned returns an error if another resource of the same plan is to have a value that only one reservation of
// the network can have. Of two that change, the one planned later gets the error. taken are the errors about what hosts
// have.
func (r *hostResource) checkPlanned(
	ctx context.Context, plan, state *model, earlier []meta.PlannedReservation,
	answers []hostset.Answer[network.Reservation], taken map[string]error,
) diag.Diagnostics {
	if r.Data.Applies.Load() {
		return nil // Create and Update look.
	}
	id, want := plan.key(), plan.reservation()
	exists := state.Network.ValueString() != ""
	owned := exists && state.key() == id
	if !owned && r.Data.Reservations.IsHad(id) && r.Data.Refreshed.Load() && (exists || otherwise(answers, want)) &&
		r.Data.Reservations.AwaitPlan(ctx, id) {
		for _, p := range r.Data.Reservations.Planned(plan.Network.ValueString()) {
			if p.ID == id && p.Owned {
				earlier = append(earlier, p)
			}
		}
	}
	others := plan.others(taken)
	for _, p := range earlier {
		switch attribute := want.Shares(p.DHCPHost); {
		case attribute == "" || slices.Contains(others, p.ID):
		case p.ID == id && (owned || !exists && p.DHCPHost == want):
			// This one itself: a replacement is planned twice, the second time as new.
		default:
			return diag.Diagnostics{tfdiag.Failure{
				Verb: "plan", Noun: plan.noun(),
				Happened: fmt.Sprintf("The %s of this reservation already exists in another virtfleet_network_dhcp_host of "+
					"this configuration: %s.", attribute, p.DHCPHost),
				Remedy: fmt.Sprintf("Set %s to another value in one of the two, or remove one. %s", attribute,
					tfdiag.DestroyAnyway),
			}.AttributeError(path.Root(attribute))}
		}
	}
	return nil
}

// otherwise reports whether a host has the reservation for the same MAC address or DUID, but not as wanted.
func otherwise(answers []hostset.Answer[network.Reservation], want network.DHCPHost) bool {
	return slices.ContainsFunc(hostset.Found(answers), func(a hostset.Answer[network.Reservation]) bool {
		return a.Value.Any() != nil && !a.Value.Complete(want)
	})
}
