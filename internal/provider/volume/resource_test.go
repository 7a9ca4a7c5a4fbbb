package volume

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// TestUnknownProvider: while the provider's configuration isn't known, no operation asks a host. Each says so.
func TestUnknownProvider(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := &volumeResource{meta.Resource{TypeName: TypeName, Data: &meta.Data{Unknown: true}}}
	var is resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &is)
	object, ok := is.Schema.Type().TerraformType(ctx).(tftypes.Object)
	if !ok {
		t.Fatal("the schema isn't an object")
	}
	attributes := map[string]tftypes.Value{}
	for name, typ := range object.AttributeTypes {
		attributes[name] = tftypes.NewValue(typ, nil)
	}
	raw := tftypes.NewValue(object, attributes)
	plan, state := tfsdk.Plan{Raw: raw, Schema: is.Schema}, tfsdk.State{Raw: raw, Schema: is.Schema}
	for verb, operate := range map[string]func() diag.Diagnostics{
		"create": func() diag.Diagnostics {
			var resp resource.CreateResponse
			r.Create(ctx, resource.CreateRequest{Plan: plan}, &resp)
			return resp.Diagnostics
		},
		"read": func() diag.Diagnostics {
			var resp resource.ReadResponse
			r.Read(ctx, resource.ReadRequest{State: state}, &resp)
			return resp.Diagnostics
		},
		"update": func() diag.Diagnostics {
			var resp resource.UpdateResponse
			r.Update(ctx, resource.UpdateRequest{Plan: plan, State: state}, &resp)
			return resp.Diagnostics
		},
		"delete": func() diag.Diagnostics {
			var resp resource.DeleteResponse
			r.Delete(ctx, resource.DeleteRequest{State: state}, &resp)
			return resp.Diagnostics
		},
		"import": func() diag.Diagnostics {
			var resp resource.ImportStateResponse
			r.ImportState(ctx, resource.ImportStateRequest{ID: "vms/data"}, &resp)
			return resp.Diagnostics
		},
	} {
		if said := operate(); len(said) != 1 || said[0].Summary() != "Unable to "+verb+" volume" {
			t.Errorf("%s: %v", verb, said)
		}
	}
}
