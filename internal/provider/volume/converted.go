package volume

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// privateConverted is the key in private state of a conversion.
const privateConverted = "converted"

// conversion is what the last refresh found instead of a raw volume. What looks like an image in a raw volume is what
// its guest has written there, except if the file can't be that of the volume any more: then another tool has changed
// it.
type conversion struct {
	// Format is what the file looks like.
	Format string `json:"format"`
	// Bytes is how long the file is.
	Bytes uint64 `json:"bytes"`
}

// asConverted returns the volume as the state has it, and the conversion, if another tool has converted the volume: it
// has neither the size nor the format that can be told for sure, and a size from a wrong guess would be repaired by
// an apply that resizes the file. Otherwise it returns what a VM sees that uses it with the format, and nil.
func (m *model) asConverted(
	ctx context.Context, private meta.PrivateReader, v libvirt.Volume, format string,
) (libvirt.Volume, *conversion, diag.Diagnostics) {
	used := v.UsedAs(format)
	bytes := m.Size.Bytes()
	if used == v || bytes == nil {
		return used, nil, nil
	}
	drifts := map[string]drift{}
	_, diags := meta.ReadPrivate(ctx, private, privateDrifted, &drifts)
	former := slices.Contains(drifts["format"].Before, v.Format) // No guest has made the file longer.
	back := former && v.CapacityBytes == *bytes && used.CapacityBytes != *bytes
	if !back && !storage.Shortened(v, format, *bytes) {
		return used, nil, diags
	}
	found := &conversion{Format: v.Format, Bytes: used.CapacityBytes}
	used.CapacityBytes = *bytes
	return used, found, diags
}

// noteConversion records the conversion, or that there is none.
func noteConversion(ctx context.Context, private meta.Private, c *conversion) (diags diag.Diagnostics) {
	var last conversion
	noted, diags := meta.ReadPrivate(ctx, private, privateConverted, &last)
	switch {
	case c != nil:
		diags.Append(meta.WritePrivate(ctx, private, privateConverted, c)...)
	case noted:
		diags.Append(meta.WritePrivate(ctx, private, privateConverted, nil)...)
	}
	return diags
}

// refuseConverted returns an error if the last refresh found that another tool has converted the raw volume.
func (m *model) refuseConverted(ctx context.Context, private meta.PrivateReader) diag.Diagnostics {
	var c conversion
	found, diags := meta.ReadPrivate(ctx, private, privateConverted, &c)
	if !found {
		return diags
	}
	host := m.CurrentHost.ValueString()
	f := m.failure("update", host, fmt.Errorf("%w: the state has format = \"raw\" and size = %q. The file has %s now, "+
		"and looks like %q. A guest doesn't change how long the file is, so another tool has converted or replaced it. "+
		"Nothing is planned, because the volume's size and format are uncertain", storage.ErrConverted, m.Size.ValueString(),
		domain.ExactSize(c.Bytes), c.Format))
	f.Remedy = fmt.Sprintf("If the file is an image in this format, take the volume out of the state with \"terraform "+
		"state rm\", and import it with the id %q. Otherwise make it a raw file of that size again while no VM uses it, and "+
		"run \"virsh pool-refresh %s\" on the host. %s", host+"/"+m.id(), m.Pool.ValueString(), tfdiag.DestroyAnyway)
	diags.Append(f.Error())
	return diags
}
