package move

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// undefineStale removes a definition that the VM left on a host when it moved to another one. It also removes the state
// of the VM's firmware and TPM there, unless the VM may be using these files where it is now: where hosts share a
// filesystem, both definitions name the same files.
func (cl *Cleanup) undefineStale(
	ctx context.Context, on *inventory.Host, d *libvirt.Domain, home *inventory.Host,
) error {
	shared := true

	definition, err := domain.Parse(d.PersistentXML)
	if err == nil {
		m := migration.VM{UUID: d.UUID, Name: d.Name, Mobility: definition.Mobility()}
		shared, err = migration.MayShareState(ctx, m, on.Conn, home.Conn)
	}

	if !shared {
		return Undefine(ctx, on, d.UUID)
	}

	cl.log.WarnContext(ctx, "what firmware and TPM keep is left: the VM may use the same files where it is",
		"name", d.Name, "host", on.Name, "its_host", home.Name, "error", err)

	return Undefine(ctx, on, d.UUID, libvirt.KeepNVRAM, libvirt.KeepTPM)
}

// removeStaleOn removes the VM's stale definition from one host.
func (cl *Cleanup) removeStaleOn(ctx context.Context, host string, vm *inventory.VM) error {
	there := *vm
	there.StaleHosts = []string{host}

	if err := cl.RemoveStale(ctx, &there); err != nil {
		return err
	}

	vm.StaleHosts = slices.DeleteFunc(slices.Clone(vm.StaleHosts), func(name string) bool { return name == host })

	return nil
}

// RemoveStale removes stale definitions of a VM that is defined where it is. A VM that runs without a definition gets
// one first. RemoveStale checks each definition again: a running domain is not a stale definition. If one of them may
// be the valid one, it removes none.
func (cl *Cleanup) RemoveStale(ctx context.Context, vm *inventory.VM) error {
	if len(vm.StaleHosts) == 0 {
		return nil
	}

	if err := vm.RequireOneCopy(); err != nil {
		return err
	}

	d, err := vm.On.Conn.Domain(ctx, vm.UUID)
	if err != nil {
		return err
	}

	if !d.Persistent {
		if _, err := cl.EnsureDefined(ctx, vm); err != nil {
			return err
		}
	}

	return cl.RemoveDefinitions(ctx, vm)
}

// RemoveDefinitions removes the VM's definitions on its stale hosts. It is meant for a VM that is being deleted;
// otherwise call RemoveStale.
func (cl *Cleanup) RemoveDefinitions(ctx context.Context, vm *inventory.VM) error {
	for _, name := range vm.StaleHosts {
		h := cl.hosts.Host(name)

		d, err := h.Conn.Domain(ctx, vm.UUID)
		if inventory.IsNotFound(err) {
			continue
		}

		if err != nil {
			return err
		}

		if d.Active() {
			return &inventory.Error{
				VM: vm.Name, Host: name, Kind: inventory.ErrTwoCopies,
				Detail: fmt.Sprintf("the definition left behind on host %q runs now; it is not touched", name),
			}
		}

		cl.log.InfoContext(ctx, "removing stale definition", "name", vm.Name, "uuid", vm.UUID, "host", name)

		if err := cl.undefineStale(ctx, h, d, vm.On); err != nil {
			return err
		}
	}

	return nil
}

// Undefine removes a definition, if it exists.
func Undefine(ctx context.Context, h *inventory.Host, uuid string, keep ...libvirt.Kept) error {
	err := h.Conn.UndefineDomain(ctx, uuid, keep...)
	if err == nil || inventory.IsNotFound(err) {
		h.Remember(uuid, nil)

		return nil
	}

	return err
}
