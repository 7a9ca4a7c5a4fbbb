package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
)

// limitsModel is the block migration_limits.
type limitsModel struct {
	PerFleet        types.Int64 `tfsdk:"per_fleet"`
	OutboundPerHost types.Int64 `tfsdk:"outbound_per_host"`
	InboundPerHost  types.Int64 `tfsdk:"inbound_per_host"`
}

func limitsAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "How many VMs may [move at the same time](guides/moving-vms.md#limit-how-many-move-at-once), " +
			"running or off. The others wait. Live migrations by other Terraform runs or users count too.",
		Attributes: map[string]schema.Attribute{
			"per_fleet":         limit("In the whole fleet.", admission.DefaultPerFleet),
			"outbound_per_host": limit("From one host.", admission.DefaultOutboundPerHost),
			"inbound_per_host":  limit("To one host.", admission.DefaultInboundPerHost),
		},
	}
}

func limit(description string, byDefault int) schema.Attribute {
	return schema.Int64Attribute{
		Optional:            true,
		MarkdownDescription: fmt.Sprintf("%s Default: `%d`.", description, byDefault),
		Validators:          []validator.Int64{int64validator.AtLeast(1)},
	}
}

// toFleet returns the limits. A limit that isn't set is 0, the default.
func (l *limitsModel) toFleet() admission.Limits {
	if l == nil {
		return admission.Limits{}
	}
	return admission.Limits{
		PerFleet: int(l.PerFleet.ValueInt64()), OutboundPerHost: int(l.OutboundPerHost.ValueInt64()),
		InboundPerHost: int(l.InboundPerHost.ValueInt64()),
	}
}
