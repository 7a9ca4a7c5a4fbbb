package virtualmachine

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// An update that moves the VM has by default twice the time after which the migration ends by itself, the disks that it
// copies included.
func TestMoveTimeout_countsCopiedDisks(t *testing.T) {
	t.Parallel()
	before := minimal.with(in{"disks": in{"root": in{"file": "/srv/web", "format": "qcow2"}}})
	state := stateAfterApply(t, before)
	f, err := fleet.New(fleet.Config{Hosts: map[string]inventory.HostConfig{
		"kvm1": {URI: fleettest.BuiltInURI(t, `<domain type="test"><name>web</name><uuid>`+text(state.ID)+`</uuid>
  <memory unit="GiB">1</memory><os><type>hvm</type></os><devices><disk type="file">
  <driver name="qemu" type="qcow2"/><source file="/srv/web"/><target dev="vda"/></disk></devices></domain>`)},
		"kvm2": {URI: fleettest.BuiltInURI(t)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	disks, err := f.Host("kvm1").Conn.BlockInfos(t.Context(), text(state.ID), []string{"vda"})
	if err != nil || disks["vda"].Capacity == 0 {
		t.Fatalf("%+v, %v", disks, err)
	}
	r := &Resource{meta.Resource{Data: &meta.Data{Fleet: f}}}
	for _, tt := range []struct {
		host, copied string
		bytes        uint64
	}{
		{"kvm1", migration.CopyFull, 0}, // It doesn't move.
		{"kvm2", migration.CopyNone, 1 << 30},
		{"kvm2", migration.CopyFull, 1<<30 + disks["vda"].Capacity},
	} {
		p := planning{state: state, hosts: []string{"kvm1", "kvm2"}, config: modelOf(t, before.with(in{
			"host": tt.host, "migration_options": in{"copy_storage": tt.copied},
		}))}
		if got, want := r.moveTimeout(t.Context(), p), 2*(migration.Options{}).Budget(tt.bytes); got != want {
			t.Errorf("to %s, copying %s: %s, want %s", tt.host, tt.copied, got, want)
		}
	}
}
