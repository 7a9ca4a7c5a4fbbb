package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// Keys of the resource's private state: what a plan has to know that isn't a user's business.
const (
	// privateLive is the definition of the running machine, by which changes are told live or not.
	privateLive = "live"
	// privateImported says that the machine was imported and nothing of ours was written to it since.
	privateImported = "imported"
	// privateAgreed is what both definitions of the running machine said when they last agreed, as long as they don't.
	privateAgreed = "agreed"
	// privateEvicted says why a machine that is off stays so.
	privateEvicted = "evicted"
	// privateReplaced is the id of the machine that is planned, and so, when Terraform goes on to plan another one in its
	// place, of the one that is replaced.
	privateReplaced = "replaced"
)

// writeLive records what runs.
func writeLive(ctx context.Context, to meta.PrivateWriter, live *domain.Spec) diag.Diagnostics {
	if live == nil {
		return meta.WritePrivate(ctx, to, privateLive, nil)
	}
	return meta.WritePrivate(ctx, to, privateLive, live)
}

// readLive returns what ran when the state was read last, nil when it didn't run.
func readLive(ctx context.Context, from meta.PrivateReader) (*domain.Spec, diag.Diagnostics) {
	var live domain.Spec
	found, diags := meta.ReadPrivate(ctx, from, privateLive, &live)
	if !found {
		return nil, diags
	}
	return &live, diags
}
