package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// updateMergeBase reads, from the private state, what both definitions of the running VM said when they last agreed,
// and stores it again. It stores nothing once they agree. The question which of the two has changed since must have the
// same answer at each reading, even after an earlier answer has entered the state. before is the state at the first
// difference. want is what an update has just asked of both definitions.
func (o *observation) updateMergeBase(
	ctx context.Context, private meta.Private, before *model, want domain.Spec,
) diag.Diagnostics {
	o.mergeBase = nil
	if !o.restartRequired() {
		return meta.WritePrivate(ctx, private, privateMergeBase, nil)
	}
	var agreed domain.Spec
	found, diags := meta.ReadPrivate(ctx, private, privateMergeBase, &agreed)
	if !found {
		agreed = before.spec(nil)
	}
	agreed = domain.MergeBase(*o.vm.PersistentSpec, *o.vm.LiveSpec, agreed, want, o.vm.Metadata.Staged)
	diags.Append(meta.WritePrivate(ctx, private, privateMergeBase, agreed)...)
	o.mergeBase = &agreed
	return diags
}
