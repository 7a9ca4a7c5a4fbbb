package networkdhcphost

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var replaced = []planmodifier.String{stringplanmodifier.RequiresReplace()}

var hostSchema = schema.Schema{
	MarkdownDescription: "Manages one DHCP reservation on every host that has its network. The network isn't " +
		"restarted. The network's `virtfleet_network` must not set `ips[*].dhcp.hosts`, because the network then " +
		"removes reservations that aren't in that list.\n\n" +
		"Another `network`, `mac` or `duid` replaces the reservation. With `create_before_destroy`, `ip` and `name` must " +
		"change, too.\n\n" +
		"Declare a reservation in one configuration only: if another one has it, too, a destroy in either removes it. The " +
		"plan warns if a new resource takes over what hosts have.",
	Attributes: map[string]schema.Attribute{
		"id": value.StableString("Network and MAC address or DUID: `lan/52:54:00:12:34:56`."),
		"network": schema.StringAttribute{
			MarkdownDescription: "Name of the network.", Required: true, PlanModifiers: replaced,
		},
		"mac": schema.StringAttribute{
			MarkdownDescription: "MAC address, for an IPv4 address. Set exactly one of `mac`, `duid`.",
			Optional:            true, PlanModifiers: replaced,
		},
		"duid": schema.StringAttribute{
			MarkdownDescription: "DHCP unique identifier, which the guest's DHCP client sends, for an IPv6 address. Set " +
				"exactly one of `mac`, `duid`.", Optional: true, PlanModifiers: replaced,
		},
		"ip": schema.StringAttribute{MarkdownDescription: "Address, in one of the subnets of the network's " +
			"`ips`. A running guest gets a changed one when it renews its lease.", Required: true},
		"name": schema.StringAttribute{
			MarkdownDescription: "Host name, which the network's DNS server also resolves.", Optional: true,
		},
		onhosts.StatesName: onhosts.StatesAttribute("reservation", "`present`, `missing`, or `differs` in the network's "+
			"active or persistent definition, where another one may have its address. Hosts without the network aren't listed"),
		"timeouts": value.TimeoutsOf("reservation", defaultTimeout),
	},
}
