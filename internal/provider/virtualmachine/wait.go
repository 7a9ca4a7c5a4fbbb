package virtualmachine

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// defaultWaitTimeout is how long a VM may take to become ready. A cloud image that resizes its disk and runs cloud-init
// on slow storage takes two to three minutes; the default is twice that.
const defaultWaitTimeout = 5 * time.Minute

var waitAttributes = attributes{
	"guest_agent": schema.BoolAttribute{
		MarkdownDescription: "Wait until the guest agent is connected.",
		Optional:            true,
	},
	"ip_address": schema.StringAttribute{
		MarkdownDescription: "Wait until this interface, a key of `interfaces`, has an address.",
		Optional:            true,
	},
	"timeout": schema.StringAttribute{
		MarkdownDescription: "How long to wait. Default: `5m`.",
		CustomType:          value.DurationType,
		Optional:            true,
	},
}

var waitType = objectType(waitAttributes)

func waitToFleet(o types.Object) fleet.WaitFor {
	a := open(o)
	return fleet.WaitFor{GuestAgent: a.bool("guest_agent").ValueBool(), IPAddress: text(a.string("ip_address"))}
}

// waitsForMore reports whether there is anything to wait for except that the VM runs.
func waitsForMore(o types.Object) bool { return waitToFleet(o) != fleet.WaitFor{} }

func waitTimeout(o types.Object) time.Duration {
	return open(o).duration("timeout").Or(defaultWaitTimeout)
}
