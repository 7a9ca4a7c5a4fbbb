package move

import (
	"context"
	"fmt"
	"maps"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// EnsureDefined gives a running VM that has become transient a definition on its host, and returns the VM as it is
// then. A plain "virsh migrate" and a "virsh undefine" both leave a transient VM, which would be gone once it is off.
// The caller holds the lock of the VM.
func (cl *Cleanup) EnsureDefined(ctx context.Context, vm *inventory.VM) (*inventory.VM, error) {
	if vm.Persistent || !vm.Active {
		return vm, nil
	}

	xml, err := cl.redefinition(ctx, vm)
	if err != nil {
		return vm, err
	}

	cl.log.InfoContext(ctx, "defining a VM that had become transient", "name", vm.Name, "uuid", vm.UUID, "host", vm.Host)

	if _, err := vm.On.Conn.RedefineDomain(ctx, xml, xml); err != nil {
		return vm, fmt.Errorf("VM %q runs on host %q without a definition, and could not be defined: %w",
			vm.Name, vm.Host, err)
	}

	now, err := cl.hosts.Refresh(ctx, vm)
	if err != nil {
		return vm, err
	}

	if !now.Persistent {
		return now, vm.NotDefined()
	}

	return now, nil
}

// redefinition returns the definition that a transient VM gets. That is the definition that the VM left on another
// host, if it certainly has the change that is staged for the VM's next start. Otherwise it is the definition of the
// running domain.
func (cl *Cleanup) redefinition(ctx context.Context, vm *inventory.VM) (string, error) {
	if len(vm.Metadata.Staged) > 0 {
		for _, name := range vm.StaleHosts {
			left, err := cl.hosts.Host(name).Conn.CompleteXML(ctx, vm.UUID)
			if inventory.IsNotFound(err) {
				continue
			}

			if err != nil {
				return "", err
			}

			if xml, ok := stagedIn(left, vm.Metadata); ok {
				return xml, nil
			}
		}
	}

	return vm.On.Conn.Redefinition(ctx, vm.UUID)
}

// stagedIn returns a definition, with the metadata of the running domain, if a staged update wrote it: it has the same
// generation and the same pending changes.
func stagedIn(left string, m domain.Metadata) (string, bool) {
	definition, err := domain.Parse(left)
	if err != nil {
		return "", false
	}

	wrote := definition.Metadata()
	if wrote.Generation != m.Generation || !maps.Equal(wrote.Staged, m.Staged) {
		return "", false
	}

	if err := definition.SetMetadata(m); err != nil {
		return "", false
	}

	xml, err := definition.XML()

	return xml, err == nil
}
