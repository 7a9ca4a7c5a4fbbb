package storagepool_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestStoragePool_changedOnSomeHosts: what an update newly declares is compared on the hosts that it didn't reach, too.
func TestStoragePool_changedOnSomeHosts(t *testing.T) {
	t.Parallel()
	const definition = `<pool type="dir"><name>files</name><target><path>/files</path></target></pool>`
	reached, silent := fleettest.BuiltInURI(t, definition), fleettest.BuiltInURI(t, definition)
	file := strings.TrimPrefix(silent, "test://")
	if err := os.Rename(file, file+"-away"); err != nil {
		t.Fatal(err)
	}
	server, err := acctest.Factories(t)["virtfleet"]()
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wire := func(typ tftypes.Type, text string) *tfprotov6.DynamicValue {
		t.Helper()
		v, err := tfprotov6.RawState{JSON: []byte(text)}.Unmarshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		d, err := tfprotov6.NewDynamicValue(typ, v)
		if err != nil {
			t.Fatal(err)
		}
		return &d
	}
	configured, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{
		Config: wire(schemas.Provider.ValueType(),
			`{"hosts": {"kvm1": {"uri": "`+reached+`"}, "kvm2": {"uri": "`+silent+`"}}}`),
	})
	if err != nil || len(configured.Diagnostics) > 0 {
		t.Fatal(err, configured)
	}
	const typeName = "virtfleet_storage_pool"
	typ := schemas.ResourceSchemas[typeName].ValueType()
	pool := func(autostart string) *tfprotov6.DynamicValue {
		return wire(typ, `{"id": "files", "name": "files", "type": "dir", "target": {"path": "/files"}, "autostart": `+
			autostart+`, "host_states": {"kvm1": "active", "kvm2": "active"}}`)
	}
	private, err := json.Marshal(map[string][]byte{
		"declared": []byte(`{"Pool": {"Name": "files", "Type": "dir", "Path": "/files"}, "Autostart": false}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	done, err := server.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: typeName, PriorState: pool("false"), PlannedState: pool("true"), PlannedPrivate: private,
		Config: wire(typ, `{"name": "files", "type": "dir", "target": {"path": "/files"}, "autostart": true}`),
	})
	if err != nil || len(done.Diagnostics) != 1 || !strings.Contains(done.Diagnostics[0].Detail, "kvm2") {
		t.Fatalf("kvm2 doesn't answer: %v, %v", err, done)
	}
	if err := os.Rename(file+"-away", file); err != nil {
		t.Fatal(err)
	}
	read, err := server.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: typeName, CurrentState: done.NewState, Private: done.Private,
	})
	if err != nil || len(read.Diagnostics) > 0 {
		t.Fatal(err, read)
	}
	now, err := read.NewState.Unmarshal(typ)
	if err != nil {
		t.Fatal(err)
	}
	var attributes map[string]tftypes.Value
	if err := now.As(&attributes); err != nil {
		t.Fatal(err)
	}
	if is := attributes["autostart"]; !is.Equal(tftypes.NewValue(tftypes.Bool, false)) {
		t.Errorf("kvm2 doesn't start the pool itself, and the state has autostart = %s", is)
	}
}
