package virtualmachine

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// TestPlanFailure_gone: what to do if the VM was removed after the plan that is applied.
func TestPlanFailure_gone(t *testing.T) {
	t.Parallel()
	err := &fleet.Error{VM: "web", Kind: fleet.ErrNotFound, Detail: "no host has it"}
	f := new(Resource).planFailure(t.Context(), &model{Name: types.StringValue("web")}, nil, "plan", err)
	if said := f.Error().Detail(); !strings.Contains(said, "web") || !strings.Contains(said, "Plan again") {
		t.Error(said)
	}
}
