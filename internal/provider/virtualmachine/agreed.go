package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// recallAgreed recalls what both definitions of the running VM said when they last agreed, where they don't any more:
// which of them departed from that is the same question however often it is asked, also when an answer to it is in the
// state already. before is the state at the first time; want is what an update has just asked of both.
func (o *observation) recallAgreed(
	ctx context.Context, private meta.Private, before *model, want domain.Spec,
) diag.Diagnostics {
	o.agreed = nil
	if !o.restartRequired() {
		return meta.WritePrivate(ctx, private, privateAgreed, nil)
	}
	var agreed domain.Spec
	found, diags := meta.ReadPrivate(ctx, private, privateAgreed, &agreed)
	if !found {
		agreed = before.spec(nil)
	}
	agreed = domain.Agreed(*o.vm.PersistentSpec, *o.vm.LiveSpec, agreed, want, o.vm.Metadata.Staged)
	diags.Append(meta.WritePrivate(ctx, private, privateAgreed, agreed)...)
	o.agreed = &agreed
	return diags
}
