package fleetpolicy

import (
	"cmp"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Common are the attributes that every policy has. The models of policies embed it.
type Common struct {
	ID         types.String   `tfsdk:"id"`
	Name       types.String   `tfsdk:"name"`
	Selector   types.Object   `tfsdk:"selector"`
	StaleHosts types.List     `tfsdk:"stale_hosts"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

const defaultTimeout = 5 * time.Minute

// Precedence says which of several policies applies to a VM.
const Precedence = "Only one policy applies to a VM, chosen in this order: the policy with the most matching " +
	"`labels`; then one with `names`; then one with `hosts`; then the first `name` in alphabetical order. So any " +
	"policy with a matching label takes precedence over a policy without `labels`."

// Attributes returns the schema of a policy: its own attributes, and those of Common.
func Attributes(own map[string]schema.Attribute) map[string]schema.Attribute {
	own["id"] = value.StableString("UUID of the policy.")
	own["name"] = schema.StringAttribute{
		MarkdownDescription: "Name of the policy in plans, messages and imports. Two policies of one resource type " +
			"can't have the same name. Default: its `id`.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
	}
	own["selector"] = schema.SingleNestedAttribute{
		MarkdownDescription: "VMs that the policy applies to: those that match every attribute set here. Default: every " +
			"VM that no other policy selects.",
		Optional:   true,
		CustomType: selectorType,
		Attributes: map[string]schema.Attribute{
			"labels": schema.MapAttribute{
				MarkdownDescription: "Labels that a VM must have, all of them.",
				ElementType:         types.StringType,
				Optional:            true,
				Validators:          []validator.Map{mapvalidator.SizeAtLeast(1)},
			},
			"names": namesAttribute("Names of VMs. The VM must have one of them."),
			"hosts": namesAttribute("Names of hosts, keys of the provider's `hosts`. The VM must be on one of them."),
		},
	}
	own["stale_hosts"] = schema.ListAttribute{
		MarkdownDescription: "Hosts whose copy of the policy is missing or different. The next apply writes it there.",
		ElementType:         types.StringType,
		Computed:            true,
	}
	own["timeouts"] = value.TimeoutsOf("policy", defaultTimeout)
	return own
}

func namesAttribute(description string) schema.Attribute {
	return schema.SetAttribute{
		MarkdownDescription: description, ElementType: types.StringType, Optional: true,
		Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
	}
}

var selectorType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"labels": types.MapType{ElemType: types.StringType},
	"names":  types.SetType{ElemType: types.StringType},
	"hosts":  types.SetType{ElemType: types.StringType},
}}

// Shared returns the attributes themselves, through which the resource accesses them in any model.
func (c *Common) Shared() *Common { return c }

// label returns the policy's name for users.
func (c *Common) label() string { return cmp.Or(c.Name.ValueString(), c.ID.ValueString(), "(new)") }

// Identity returns the policy's identity in the fleet, with that id.
func (c *Common) Identity(id string) policy.Identity {
	i := policy.Identity{ID: id, Name: cmp.Or(c.Name.ValueString(), id)}
	all := c.Selector.Attributes()
	if labels, ok := all["labels"].(types.Map); ok {
		i.Selector.Labels = value.StringMap(labels)
	}
	if machines, ok := all["names"].(types.Set); ok {
		i.Selector.Names = value.StringSet(machines)
	}
	if hosts, ok := all["hosts"].(types.Set); ok {
		i.Selector.Hosts = value.StringSet(hosts)
	}
	return i
}

// fromIdentity sets name and selector.
func (c *Common) fromIdentity(i policy.Identity) {
	c.Name = types.StringNull()
	if i.Name != i.ID {
		c.Name = types.StringValue(i.Name)
	}
	c.Selector = types.ObjectNull(selectorType.AttrTypes)
	if s := i.Selector; s.Labels != nil || s.Names != nil || s.Hosts != nil {
		c.Selector = types.ObjectValueMust(selectorType.AttrTypes, map[string]attr.Value{
			"labels": value.NewStringMap(s.Labels), "names": value.NewStringSet(s.Names),
			"hosts": value.NewStringSet(s.Hosts),
		})
	}
}
