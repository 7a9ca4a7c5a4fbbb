package image

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
)

// TestRead_silentHost: an image that was imported, and not yet applied, stays in the state while no host answers, as
// on_unreachable says. An import fails.
func TestRead_silentHost(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f, err := fleet.New(fleet.Config{Owner: "test", Hosts: map[string]fleet.HostConfig{
		"kvm1": {URI: "qemu+unix:///system?socket=" + t.TempDir() + "/absent"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r := &imageResource{meta.Resource{
		TypeName: TypeName, Data: &meta.Data{Fleet: f, OnUnreachable: meta.OnUnreachableKeep},
	}}
	var is resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &is)
	for name, last := range map[string]map[string]string{
		"importing": nil, "imported": {"kvm1": onhosts.Present},
	} {
		raw := tftypes.NewValue(is.Schema.Type().TerraformType(ctx), nil)
		state := tfsdk.State{Raw: raw, Schema: is.Schema}
		states, diags := types.MapValueFrom(ctx, types.StringType, last)
		for attribute, v := range map[string]any{
			"id": "vms/base-000000000000", "pool": "vms", "volume": "base-000000000000", "name": "base",
			onhosts.StatesName: states,
		} {
			diags.Append(state.SetAttribute(ctx, path.Root(attribute), v)...)
		}
		if diags.HasError() {
			t.Fatal(diags)
		}
		resp := resource.ReadResponse{State: state}
		r.Read(ctx, resource.ReadRequest{State: state}, &resp)
		if failed := resp.Diagnostics.HasError(); failed != (last == nil) || len(resp.Diagnostics) == 0 {
			t.Errorf("%s: %v", name, resp.Diagnostics)
		}
		if !resp.State.Raw.Equal(state.Raw) {
			t.Errorf("%s: the state becomes %s", name, resp.State.Raw)
		}
	}
}
