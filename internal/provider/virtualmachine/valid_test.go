package virtualmachine_test

import (
	"maps"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestFastPath_validIsValidForTheFramework: the framework has nothing to say about a configuration that the fast path
// finds valid. A plain one is found valid, or every plan goes the long way.
func TestFastPath_validIsValidForTheFramework(t *testing.T) {
	t.Parallel()
	r := newRPC(t, local, typical)
	framework := providerserver.NewProtocol6(r.provider)()
	attributes := r.attributes(r.config)
	request := func(config map[string]tftypes.Value) *tfprotov6.ValidateResourceConfigRequest {
		return &tfprotov6.ValidateResourceConfigRequest{
			TypeName: virtualmachine.TypeName, Config: r.wire(tftypes.NewValue(r.schema, config)),
		}
	}
	var short virtualmachine.FastPath
	if !short.Valid(t.Context(), request(attributes)) {
		t.Fatal("a plain configuration isn't found valid")
	}
	rapid.Check(t, func(t *rapid.T) {
		config := maps.Clone(attributes)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(value.Keys(config)), 1, 3).Draw(t, "names") {
			config[name] = virtualmachine.DrawValue(config[name].Type(), 1).Draw(t, name)
		}
		req := request(config)
		if !short.Valid(t.Context(), req) {
			return
		}
		resp, err := framework.ValidateResourceConfig(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range resp.Diagnostics {
			t.Errorf("it is found valid, but: %s: %s (%s)", d.Summary, d.Detail, d.Attribute)
		}
	})
}
