package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// updateMergeBase reads, from the private state, what both definitions of the running VM said when they last agreed,
// and stores it again. It stores nothing once they agree. The question which of the two has changed since must have the
// same answer at each reading, even after an earlier answer has entered the state. before returns what both said before
// the first difference. want is what an update has just asked of both definitions.
func (o *observation) updateMergeBase(
	ctx context.Context, private meta.Private, before func() domain.Spec, want domain.Spec,
) diag.Diagnostics {
	o.mergeBase = nil
	if !o.restartRequired() {
		return meta.WritePrivate(ctx, private, privateAgreed, nil)
	}
	agreed, diags := readPrivateSpec(ctx, private, privateAgreed)
	if agreed == nil {
		agreed = new(before())
	}
	o.mergeBase = new(domain.MergeBase(*o.vm.PersistentSpec, *o.vm.LiveSpec, *agreed, want, o.vm.Metadata.Staged))
	diags.Append(meta.WritePrivate(ctx, private, privateAgreed, o.mergeBase)...)
	return diags
}
