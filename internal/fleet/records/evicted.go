package records

import (
	"context"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Evicted returns why a VM that is off is to stay off: its host is under a maintenance that shut it down or saved it,
// as of the snapshot. It returns "" for any other VM.
func (s *Store) Evicted(ctx context.Context, vm *inventory.VM) (string, error) {
	if vm.Active {
		return "", nil
	}

	record, err := s.recordOf(ctx, vm.On)
	if err != nil {
		return "", err
	}

	return record.Evicted(vm.UUID, vm.Host), nil
}

// Evicting returns why a running VM's autostart is not as its run strategy requires: a drain is about to evict the VM,
// and has turned its autostart off. It returns "" for any other VM.
func (s *Store) Evicting(ctx context.Context, vm *inventory.VM) (string, error) {
	if !vm.Active {
		return "", nil
	}

	if e := vm.Metadata.Eviction; e.Leaves(vm.Host, vm.HostUUID) {
		return fmt.Sprintf("%s drains host %q since %s", e.Owner, vm.Host, e.Since.Format(time.RFC3339)), nil
	}

	if on, managed := status.Autostart(vm.Metadata.RunStrategy); !managed || on == vm.Autostart {
		return "", nil // there is nothing to explain, and its host need not be queried
	}

	record, err := s.recordOf(ctx, vm.On)
	if err != nil {
		return "", err
	}

	return record.Evicting(vm.UUID, vm.Host), nil
}

// EvictedNow queries the VM's host why a VM that is off is to stay off. It returns "" if no maintenance turned the VM
// off.
func (s *Store) EvictedNow(ctx context.Context, vm *inventory.VM) (string, error) {
	record, _, err := inventory.ReadRecord(ctx, vm.On)
	if err != nil {
		return "", err
	}

	return record.Evicted(vm.UUID, vm.Host), nil
}
