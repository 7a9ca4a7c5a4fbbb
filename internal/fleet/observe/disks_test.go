package observe

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// QEMU keeps the last error of a disk until the next one. It counts as long as the guest is paused for it, and not
// once the guest runs again.
func TestDiskFact_forgetsWhatIsOver(t *testing.T) {
	t.Parallel()

	for state, want := range map[libvirt.DomainState]status.ConditionStatus{
		libvirt.Paused: status.False, libvirt.Running: status.True,
	} {
		vm := &inventory.VM{Host: "kvm1", Active: true, State: state}

		o := &observing{vm: vm, images: map[string]status.Disk{"vda": {Ready: status.True}}}

		got := o.diskFact(domain.Disk{Target: "vda", Source: domain.DiskSource{File: "/a"}}, libvirt.DiskErrorNoSpace)
		if got.Ready != want {
			t.Errorf("%v: %+v, want %v", state, got, want)
		}
	}
}
