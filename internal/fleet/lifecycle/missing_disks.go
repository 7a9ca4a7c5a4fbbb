package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// missingDisks returns the own disks that the VM uses and that its host doesn't have: neither their storage pools,
// which are active, nor the host itself.
func (m *Manager) missingDisks(ctx context.Context, vm *inventory.VM, spec domain.Spec) map[string]bool {
	missing := map[string]bool{}

	for key, o := range vm.Metadata.OwnDisks {
		if _, used := spec.Disks[key]; !used || vm.Active || !vm.HasFile(o.Path) || !m.isMissing(ctx, vm, o.Path) {
			continue
		}

		if _, err := vm.On.Conn.PoolVolume(ctx, o.Pool, o.Volume); inventory.IsNotFound(err) {
			missing[key] = true
		}
	}

	return missing
}

// isMissing reports whether the VM's host is known to have none of the files.
func (m *Manager) isMissing(ctx context.Context, vm *inventory.VM, files ...string) bool {
	there := m.hosts.FilesOn(ctx, vm.On, files)

	return !slices.ContainsFunc(files, func(file string) bool {
		has, known := there[file]

		return has || !known
	})
}

// createdOn says on which other host an own disk was created.
func createdOn(vm *inventory.VM, o domain.OwnDisk) string {
	if at := vm.AsLeft(o).Host; at != "" && at != vm.Host {
		return fmt.Sprintf(", which was created on host %q", at)
	}

	return ""
}

// copiedFrom says that the host where an own disk was created has a file with the path of the one that the VM uses in
// its place: a move that has copied an overlay leaves the overlay where it was.
func (m *Manager) copiedFrom(
	ctx context.Context, vm *inventory.VM, key string, o domain.OwnDisk, spec domain.Spec,
) []string {
	at, now := m.hosts.Host(vm.Peers[o.HostUUID]), spec.Disks[key].Source.File
	if at == nil || at == vm.On || now == "" || !m.hosts.FilesOn(ctx, at, []string{now})[now] {
		return nil
	}

	return []string{fmt.Sprintf("disks.%s: %s on host %q, which the VM may have used before it moved", key, now, at.Name)}
}
