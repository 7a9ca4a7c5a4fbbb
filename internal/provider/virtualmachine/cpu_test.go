package virtualmachine

import (
	"maps"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// A model that is declared alone makes the mode custom, which the plan shows: it restarts the guest.
func TestSettleCPU_showsTheModeOfAModel(t *testing.T) {
	t.Parallel()
	cpu := func(mode, model types.String) types.Object {
		values := map[string]attr.Value{}
		for name, t := range cpuType.AttrTypes {
			values[name] = valueNull(t)
		}
		values["mode"], values["model"] = mode, model
		return types.ObjectValueMust(cpuType.AttrTypes, values)
	}
	null, model := types.StringNull(), types.StringValue("Nehalem")
	has := types.StringValue("host-model")
	for name, tt := range map[string]struct{ mode, model, want types.String }{
		"a model":             {null, model, types.StringValue("custom")},
		"not known yet":       {null, types.StringUnknown(), types.StringUnknown()},
		"none":                {null, null, has},
		"written as empty":    {null, types.StringValue(""), has},
		"with a mode as well": {types.StringValue("custom"), model, types.StringValue("custom")},
	} {
		config, prior := cpu(tt.mode, tt.model), cpu(has, null)
		planned := maps.Clone(config.Attributes())
		if tt.mode.IsNull() {
			planned["mode"] = has // What the framework takes over from the state.
		}
		got := planCPU(config, types.ObjectValueMust(cpuType.AttrTypes, planned), prior)
		if mode := got.Attributes()["mode"]; !mode.Equal(tt.want) {
			t.Errorf("%s: mode %s, want %s", name, mode, tt.want)
		}
	}
}
