package volume

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// TestWarnOfUsers: the warnings about several volumes in use have titles of their own: Terraform shows only one of
// several with the same title.
func TestWarnOfUsers(t *testing.T) {
	t.Parallel()
	volume := func(name string) string {
		return `<volume type="file"><name>` + name + `</name><capacity>1048576</capacity><target><path>/vms/` + name +
			`</path></target></volume>`
	}
	f, err := fleet.New(fleet.Config{Hosts: map[string]fleet.HostConfig{"kvm1": {URI: fleettest.BuiltInURI(t,
		`<pool type="dir"><name>vms</name><target><path>/vms</path></target>`+volume("data")+volume("logs")+`</pool>`,
		`<domain type="test"><name>web</name><memory>1024</memory><os><type>hvm</type></os><devices>`+
			`<disk type="file"><source file="/vms/data"/><target dev="vda"/></disk>`+
			`<disk type="file"><source file="/vms/logs"/><target dev="vdb"/></disk></devices></domain>`)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &volumeResource{meta.Resource{Data: &meta.Data{Fleet: f}}}
	for _, name := range []string{"data", "logs"} {
		said := r.warnOfUsers(t.Context(), &model{
			Pool: types.StringValue("vms"), Name: types.StringValue(name), CurrentHost: types.StringValue("kvm1"),
		})
		if len(said) != 1 || said[0].Summary() != "Volume is in use: vms/"+name {
			t.Errorf("%s: %v", name, said)
		}
	}
}
