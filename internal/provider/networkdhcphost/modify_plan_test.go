package networkdhcphost

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TestModifyPlan_hostStates: the plan of a change leaves the hosts open, because the network may be planned later in
// the same run. The plan of a reservation that stays doesn't. No host is asked while the provider's configuration isn't
// known.
func TestModifyPlan_hostStates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := &hostResource{meta.Resource{TypeName: TypeName, Data: &meta.Data{Unknown: true}}}
	raw := func(ip, name string) tftypes.Value {
		state := tfsdk.State{
			Raw: tftypes.NewValue(hostSchema.Type().TerraformType(ctx), nil), Schema: hostSchema,
		}
		if diags := state.Set(ctx, &model{
			ID: types.StringValue("lan/52:54:00:00:00:01"), Network: types.StringValue("lan"),
			MAC: types.StringValue("52:54:00:00:00:01"), IP: types.StringValue(ip), Name: types.StringValue(name),
			HostStates: value.NewStringMap(map[string]string{"kvm1": onhosts.Missing}),
			Timeouts:   noTimeouts,
		}); diags.HasError() {
			t.Fatal(diags)
		}
		return state.Raw
	}
	for planned, open := range map[[2]string]bool{
		{"10.0.0.2", "web"}: false, {"10.0.0.3", "web"}: true, {"10.0.0.2", "www"}: true,
	} {
		plan := tfsdk.Plan{Raw: raw(planned[0], planned[1]), Schema: hostSchema}
		resp := resource.ModifyPlanResponse{Plan: plan}
		r.ModifyPlan(ctx, resource.ModifyPlanRequest{
			Plan: plan, State: tfsdk.State{Raw: raw("10.0.0.2", "web"), Schema: hostSchema},
		}, &resp)
		var is model
		resp.Diagnostics.Append(resp.Plan.Get(ctx, &is)...)
		if resp.Diagnostics.HasError() {
			t.Fatalf("%q: %v", planned, resp.Diagnostics)
		}
		if is.HostStates.IsUnknown() != open {
			t.Errorf("%q: host_states is %s", planned, is.HostStates)
		}
	}
}
