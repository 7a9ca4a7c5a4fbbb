package network

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

// TestCreatesBridge_ofWhatIsKept: an imported network keeps its mode, which says that its bridge is the host's, though
// the configuration declares none.
func TestCreatesBridge_ofWhatIsKept(t *testing.T) {
	t.Parallel()
	mode := func(mode string) model {
		kind := map[string]attr.Type{"mode": types.StringType}
		return model{Forward: types.ObjectValueMust(kind, map[string]attr.Value{"mode": types.StringValue(mode)})}
	}
	for state, creates := range map[string]bool{"nat": true, "bridge": false} {
		config, plan := model{}, model{}
		plan.keepUndeclared(config, mode(state))
		if plan.createsBridge() != creates {
			t.Errorf("%s: %t, want %t", state, !creates, creates)
		}
		if !config.createsBridge() {
			t.Error("libvirt creates the bridge of a new network that declares no mode")
		}
	}
	if config := mode(network.ModeBridge); config.createsBridge() {
		t.Error("the bridge of a network of mode bridge is the host's")
	}
}
