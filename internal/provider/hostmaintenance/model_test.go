package hostmaintenance

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
)

// The state says of every VM where it went, also of one that another tool has moved.
func TestModel_resultsSayWhereVMsWent(t *testing.T) {
	t.Parallel()
	step := func(target, arrived string) hostrecord.Step {
		return hostrecord.Step{Step: evacuation.Step{Target: target}, Arrived: arrived}
	}
	var m model
	m.setSteps([]hostrecord.Step{step("kvm2", ""), step("", "kvm3"), step("", "")}, true)
	for i, want := range []attr.Value{types.StringValue("kvm2"), types.StringValue("kvm3"), types.StringNull()} {
		result, _ := m.Results.Elements()[i].(types.Object)
		if got := result.Attributes()["target"]; !want.Equal(got) {
			t.Errorf("result %d went to %s, want %s", i, got, want)
		}
	}
}
