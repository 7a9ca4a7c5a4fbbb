package hosts

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/host"
)

// model is the data source's state.
type model struct {
	Labels types.Map `tfsdk:"labels"`
	host.Question
	Names types.List            `tfsdk:"names"`
	Hosts map[string]host.Model `tfsdk:"hosts"`
}
