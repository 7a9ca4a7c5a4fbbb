package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Interfaces that came without a key of ours keep the one that they had at the first update: when the first of them is
// detached by hand, the second one doesn't become it.
func TestLab_foreignInterfacesKeepTheirKeys(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	id, name := uuid.NewString(), lab.Name(t)

	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><uuid>%s</uuid><memory unit="MiB">32</memory>
		<os><type arch="x86_64" machine="q35">hvm</type></os><devices>
		<interface type="user"><mac address="52:54:00:aa:00:01"/><model type="virtio"/></interface>
		<interface type="user"><mac address="52:54:00:aa:00:02"/><model type="virtio"/></interface>
		</devices></domain>`, name, id))
	l.RemoveDomain(t, name)

	vm, err := f.FindNow(t.Context(), id, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	if vm, err = f.Update(t.Context(), id, lastOf(vm), Desired{
		Spec:     domain.Spec{Name: name},
		Metadata: domain.Metadata{RunStrategy: "Manual", Labels: map[string]string{"a": "b"}},
	}); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, "kvm1", "detach-interface", id, "user", "--mac", "52:54:00:aa:00:01", "--config")

	if vm, err = f.FindNow(t.Context(), id, lastOf(vm)); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff([]string{"net1"}, slices.Collect(maps.Keys(vm.PersistentSpec.Interfaces))); diff != "" {
		t.Error(diff)
	}
}
