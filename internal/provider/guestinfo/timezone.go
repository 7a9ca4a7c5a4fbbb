package guestinfo

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// timezoneModel is the guest's timezone.
type timezoneModel struct {
	Name          types.String `tfsdk:"name"`
	OffsetSeconds types.Int64  `tfsdk:"offset_seconds"`
}

var timezoneType = map[string]attr.Type{"name": types.StringType, "offset_seconds": types.Int64Type}

func timezoneAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Timezone of the guest.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Computed: true, MarkdownDescription: "Abbreviated name of the timezone.",
			},
			"offset_seconds": schema.Int64Attribute{
				Computed: true, MarkdownDescription: "How many seconds the guest's time is ahead of UTC.",
			},
		},
	}
}

func fromTimezone(ctx context.Context, zone *libvirt.GuestTimezone) (types.Object, diag.Diagnostics) {
	if zone == nil {
		return types.ObjectNull(timezoneType), nil
	}
	return types.ObjectValueFrom(ctx, timezoneType, timezoneModel{
		Name: value.NewStringOrNull(zone.Name), OffsetSeconds: value.NewInt(zone.OffsetSeconds),
	})
}
