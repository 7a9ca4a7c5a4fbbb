package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// agree recalls what both definitions of the running machine said when they last agreed, where they don't any more:
// which of them departed from that is the same question however often it is asked, also when an answer to it is in the
// state already. before is the state at the first time; want is what an update has just asked of both.
func (o *observation) agree(
	ctx context.Context, private readWriter, before *model, want domain.Spec,
) diag.Diagnostics {
	o.agreed = nil
	if !o.vm.RestartRequired() {
		return writePrivate(ctx, private, privateAgreed, nil)
	}
	var agreed domain.Spec
	found, diags := readPrivate(ctx, private, privateAgreed, &agreed)
	if !found {
		agreed = before.spec(nil)
	}
	agreed = domain.Agreed(*o.vm.PersistentSpec, *o.vm.LiveSpec, agreed, want)
	diags.Append(writePrivate(ctx, private, privateAgreed, agreed)...)
	o.agreed = &agreed
	return diags
}
