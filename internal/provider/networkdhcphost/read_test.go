package networkdhcphost

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// noTimeouts is the attribute when it isn't set.
var noTimeouts = timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{
	"create": types.StringType, "update": types.StringType, "delete": types.StringType,
})}

// TestRead_unconfiguredHost: a reservation that was last seen on a host that is no longer configured is reported, as it
// is for every other resource on hosts. It is gone from the configured host, whose network has no reservation.
func TestRead_unconfiguredHost(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{
		"kvm1": {URI: "test:///default"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	state := tfsdk.State{Raw: tftypes.NewValue(hostSchema.Type().TerraformType(ctx), nil), Schema: hostSchema}
	if diags := state.Set(ctx, &model{
		ID: types.StringValue("default/52:54:00:00:00:01"), Network: types.StringValue("default"),
		MAC: types.StringValue("52:54:00:00:00:01"), IP: types.StringValue("192.168.122.9"),
		HostStates: value.NewStringMap(map[string]string{"kvm1": onhosts.Present, "kvm2": onhosts.Present}),
		Timeouts:   noTimeouts,
	}); diags.HasError() {
		t.Fatal(diags)
	}
	resp := resource.ReadResponse{State: state}
	r := &hostResource{meta.Resource{TypeName: TypeName, Data: &meta.Data{Fleet: f}}}
	r.Read(ctx, resource.ReadRequest{State: state}, &resp)
	if resp.Diagnostics.HasError() || !resp.State.Raw.IsNull() {
		t.Errorf("the reservation is still there: %v", resp.Diagnostics)
	}
	if w := resp.Diagnostics.Warnings(); len(w) != 1 || w[0].Summary() != "Host is not configured any more" {
		t.Errorf("warnings: %v", w)
	}
}
