package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// markDeleting records that the VM's own disks are about to be deleted, if it has any. If this run is interrupted
// before the definition is removed, the record tells this VM from one whose disk was lost. It returns the VM as it is
// then. An error keeps no VM from being deleted: its deletion may be what makes room for the record.
func (m *Manager) markDeleting(ctx context.Context, vm *inventory.VM) *inventory.VM {
	own := maps.Clone(vm.Metadata.OwnDisks)
	marks := false

	for _, key := range disksRemovedWithVM(vm, false) {
		if o := own[key]; vm.OwnsHere(o) {
			// If this is the last volume of its pool, the empty directory shows that it is gone only if it is the same one.
			o = o.On(vm.HostUUID)
			o.SeenIn = cmp.Or(m.records.Storage().DirectoryWith(ctx, vm.Host, o.Path), o.SeenIn)
			own[key], marks = o, true
		}
	}

	if !marks {
		return vm
	}

	now, err := m.hosts.Refresh(ctx, vm) // It has been shut down since it was read.
	if inventory.IsNotFound(err) {
		return vm // It had no definition.
	}

	if err == nil {
		metadata := now.Metadata
		metadata.OwnDisks = own
		metadata.Deleting = &domain.Deleting{Owner: m.owner, Since: time.Now().UTC()}

		if _, err = records.WriteMetadata(ctx, now, metadata); err == nil {
			now, err = m.hosts.Refresh(ctx, now)
		}
	}

	if err != nil {
		m.log.WarnContext(ctx, "not recorded that the VM's disks are deleted", "name", vm.Name, "host", vm.Host,
			"error", err.Error())

		return vm
	}

	return now
}
