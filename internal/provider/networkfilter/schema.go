package networkfilter

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var priority = []validator.Int64{int64validator.Between(-1000, 1000)}

var filterSchema = schema.Schema{
	MarkdownDescription: "Manages a libvirt network filter, by its rules or as `xml`, on every host in `hosts`. A " +
		"change applies to running VMs at once. The provider doesn't destroy a filter that a VM's definition or " +
		"another filter uses.",
	Attributes: map[string]schema.Attribute{
		"id": value.StableString("Same as `name`."),
		"name": schema.StringAttribute{
			MarkdownDescription: "Name of the filter on every host. A change replaces the filter: see [Remove or rename a " +
				"network](../guides/networks.md#remove-or-rename-a-network).", Required: true,
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:    []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		onhosts.HostsName: onhosts.HostsAttribute("filter"),
		onhosts.StatesName: onhosts.StatesAttribute("filter", "`present`, `missing`, or `differs` if it was changed "+
			"since the last apply"),
		"timeouts": value.TimeoutsOf("filter", defaultTimeout),
		"chain": schema.StringAttribute{
			MarkdownDescription: "Chain that the rules are in, such as `root`, `ipv4` or `arp`. Default: `root`.",
			Optional:            true,
		},
		"priority": schema.Int64Attribute{
			MarkdownDescription: "Priority of the chain, from -1000 to 1000. Default: libvirt's for the chain.",
			Optional:            true, Validators: priority,
		},
		"references": schema.ListAttribute{
			MarkdownDescription: "Other filters that are part of this one, such as `clean-traffic`.",
			ElementType:         types.StringType, Optional: true,
		},
		"rules": schema.ListNestedAttribute{
			MarkdownDescription: "Rules.", Optional: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"action": schema.StringAttribute{
					MarkdownDescription: "Action: `accept`, `drop`, `reject`, `return` or `continue`.", Required: true,
					Validators: []validator.String{value.Among("accept", "drop", "reject", "return", "continue")},
				},
				"direction": schema.StringAttribute{
					MarkdownDescription: "Direction of the packets, seen from the VM: `in`, `out` or `inout`.", Required: true,
					Validators: []validator.String{value.Among("in", "out", "inout")},
				},
				"priority": schema.Int64Attribute{
					MarkdownDescription: "Priority of the rule, from -1000 to 1000. Rules with lower numbers are checked first. " +
						"Default: `500`.",
					Optional: true, Validators: priority,
				},
				"state_match": schema.BoolAttribute{
					MarkdownDescription: "Whether replies to packets that this rule accepts are accepted too. Replies to " +
						"the guest's own connections need an `accept` rule with the direction `out`. Default: `true`.", Optional: true,
				},
				"protocol": schema.StringAttribute{
					MarkdownDescription: "Protocol. `all`, `tcp`, `udp` and `icmp` are IPv4 only; for IPv6, use `all-ipv6`, " +
						"`tcp-ipv6` and so on. `mac`, `ip`, `ipv6` and `arp` look at the link layer. Default: every packet of the chain.",
					Optional: true,
					Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z][a-z0-9-]*$`),
						"must be a protocol of libvirt's network filters, such as \"tcp\"")},
				},
				"match": schema.MapAttribute{
					MarkdownDescription: "Values of the protocol's fields, by [libvirt's " +
						"names](https://libvirt.org/formatnwfilter.html), such as `{ dstportstart = \"22\" }`. The interface sets " +
						"variables, such as `$IP`, in `filter.parameters`.",
					ElementType: types.StringType, Optional: true,
				},
				"negate": schema.BoolAttribute{
					MarkdownDescription: "Whether the rule is for packets that don't match (libvirt's `match='no'`). Default: " +
						"`false`.", Optional: true,
				},
			}},
		},
		"xml": schema.StringAttribute{
			MarkdownDescription: "Definition in libvirt's own format, instead of `chain`, `priority`, `references` and " +
				"`rules`. The attribute `name` of `<filter>` may be missing; `<uuid>` is ignored.",
			Optional: true,
			Validators: []validator.String{stringvalidator.ConflictsWith(path.MatchRoot("chain"), path.MatchRoot("priority"),
				path.MatchRoot("references"), path.MatchRoot("rules"))},
		},
	},
}
