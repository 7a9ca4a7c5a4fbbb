package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// warnSnapshot warns of a volume that loses its data once it is full. Only volumes that are devices can be like that:
// for all others, no host is asked.
func warnSnapshot(ctx context.Context, s *storage.Storage, state *model) (diags diag.Diagnostics) {
	device := state.Path.ValueString()
	if !strings.HasPrefix(device, "/dev/") {
		return nil
	}
	for _, a := range hostset.Found(s.Volume(ctx, s.Hosts.Named(state.CurrentHost.ValueString()), state.ref())) {
		needs, loses := storage.SnapshotNeeds(*a.Value)
		if !loses {
			continue
		}
		diags.AddAttributeWarning(path.Root("size"), "Volume can lose its data", fmt.Sprintf(
			"On host %q, %s is an LVM snapshot that a guest sees as %s, and it has space for %s of changes. Once more is "+
				"written to it, LVM makes it invalid, and all its data is lost.\n\nGive it space for everything: run \"lvextend "+
				"-L %db %s\" there, then \"virsh pool-refresh %s\". If the volume group has less, copy the data to another volume.",
			a.Host, state.noun(), domain.FormatSize(a.Value.CapacityBytes), domain.FormatSize(a.Value.AllocationBytes), needs,
			device, state.Pool.ValueString()))
	}
	return diags
}
