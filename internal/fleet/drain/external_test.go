package drain

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Where another tool has moved a VM with the strategy External is known when the drain is over. A VM that has gone for
// good went nowhere.
func TestTryStep_notesWhereAnExternalVMWent(t *testing.T) {
	t.Parallel()

	const uuid = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10"

	dr := drainerOf(t, map[string]inventory.HostConfig{
		"drained": {URI: fleettest.BuiltInURI(t)},
		"other": {URI: fleettest.BuiltInURI(t, `<domain type="test"><name>web</name><uuid>`+uuid+`</uuid>
  <memory>1024</memory><os><type>hvm</type></os></domain>`)},
	})

	for id, want := range map[string]string{uuid: "other", "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca11": ""} {
		d := Begun(dr, Drain{Host: "drained"}, stepOf(id, evacuation.MethodExternal, ""))

		result, err := d.Try(t.Context(), 0, evacuation.Rule{})
		if s := d.Step(0); err != nil || result != hostrecord.ResultMoved || s.WentTo() != want || s.Target != "" {
			t.Errorf("%s: %s to %q, planned to %q, %v; want %q", id, result, s.WentTo(), s.Target, err, want)
		}
	}
}
