package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// verifyNameUnique returns an error if another run created a VM of that name on another host meanwhile. Both runs may
// then undo their creation, but two VMs never get the same name.
func (m *Manager) verifyNameUnique(ctx context.Context, id, name string) error {
	answers, err := m.hosts.AskAll(ctx, inventory.ByName(name))
	if err != nil {
		return err
	}

	for _, a := range answers {
		if a.Domain != nil && a.Domain.UUID != id {
			return &inventory.Error{
				VM: name, Host: a.Host.Name, Kind: inventory.ErrExists,
				Detail: fmt.Sprintf("another run created a VM of that name on host %q at the same time", a.Host.Name),
				Remedy: "Wait until that run has ended.", Next: inventory.Retry,
			}
		}
	}

	return nil
}

// findByName returns the VM of that name, or nil. It reads the shared reading of the hosts, and queries all hosts only
// if the name is there, because that VM may be gone, or if a host didn't answer. If a VM of that name was created since
// the reading, verifyNameUnique finds it, after the new VM is defined and before its disks are created.
func (m *Manager) findByName(ctx context.Context, name string) (*inventory.VM, error) {
	if _, err := m.hosts.FindByName(ctx, name); inventory.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer, not an error
	}

	return m.findByNameNow(ctx, name)
}

// findByNameNow queries all hosts for the VM of that name. It returns nil if no host that answers has one. A host that
// doesn't answer doesn't prevent VMs from being created on the others: the new VM gets a UUID of its own.
func (m *Manager) findByNameNow(ctx context.Context, name string) (*inventory.VM, error) {
	answers, err := m.hosts.AskAll(ctx, inventory.ByName(name))
	if err != nil {
		return nil, err
	}

	if silent := inventory.SilentHosts(answers); len(silent) > 0 {
		m.log.WarnContext(ctx, "hosts that don't answer may have a VM of the same name",
			"name", name, "hosts", silent)
	}

	i := slices.IndexFunc(answers, func(a inventory.Reply) bool { return a.Domain != nil })
	if i < 0 {
		return nil, nil //nolint:nilnil // absence is an answer, not an error
	}

	return inventory.NewVM(answers[i])
}

// nameTaken is the error for a VM that is to get the name of another one.
func nameTaken(other *inventory.VM) error {
	return placement.NameTaken(other).Failed(other.Name, other.Host, inventory.ErrExists)
}

// checkRename returns an error if the VM is to get the name of another one. libvirt knows only the names on its own
// host.
func (u *update) checkRename(ctx context.Context) error {
	if u.want.Spec.Name == "" || u.want.Spec.Name == u.vm.Name {
		return nil
	}

	other, err := u.manager.findByNameNow(ctx, u.want.Spec.Name)
	switch {
	case err != nil:
		return err
	case other != nil && other.UUID != u.vm.UUID:
		return nameTaken(other)
	case u.goesDown() && u.want.Spec.HasNVRAM() && u.want.Spec.Values["firmware.nvram"] == "":
		_, err = u.variablesToName(ctx) // The guest isn't shut down for a name that it can't get.
	}

	return err
}

// completeInterrupted completes a VM that an interrupted Create left behind. It returns an error if the VM of that name
// is any other VM, and errUndone if the run that was creating it has removed it.
func (m *Manager) completeInterrupted(
	ctx context.Context, vm *inventory.VM, d placement.Desired,
) (*inventory.VM, error) {
	if !placement.Adoptable(vm, d) {
		return nil, nameTaken(vm)
	}

	// The run that made the mark may still be creating the VM. Then that run has the lock.
	return m.underLock(ctx, vm.On, vm.UUID, func(held context.Context) (*inventory.VM, error) {
		now, err := m.hosts.FindNow(held, vm.UUID, inventory.LastKnown{})
		if inventory.IsNotFound(err) {
			return nil, errUndone
		}

		if err != nil {
			return nil, err
		}

		if !placement.Adoptable(now, d) {
			return nil, nameTaken(now)
		}

		m.log.InfoContext(ctx, "completing an interrupted creation", "name", now.Name, "uuid", now.UUID,
			"host", now.Host, "owner", now.Metadata.Creating.Owner)

		if now, err = m.catchUp(held, now, d); err != nil {
			return nil, err
		}

		idle, ran := refuseSecondRun(now, d.Strategy()), mayHaveRun(now)
		if idle != nil {
			d.Metadata.RunStrategy, ran = status.Manual, true // It is completed without a start.
		}

		left := leftovers{ran: ran, variables: d.DeclaredNVRAM() != ""}

		done, err := m.makeDisksAndStart(held, now.On, now.UUID, d, left)
		if err != nil {
			return done, err
		}

		return done, idle
	})
}

// mayHaveRun reports whether the guest of a VM that an interrupted Create left behind may have run since. libvirt
// forgets that when its daemon is restarted. So a VM whose firmware or TPM keeps state on the host counts as one that
// may have run, even if it never did, unless its own disks are incomplete. An earlier VM of that name may have left
// files of that state, so their existence proves nothing.
func mayHaveRun(vm *inventory.VM) bool {
	if vm.Ran() || vm.ManagedSave {
		return true
	}

	for _, o := range vm.Metadata.OwnDisks {
		if o.Creating {
			return false
		}
	}

	spec := vm.PersistentSpec

	return spec != nil && (spec.HasNVRAM() || spec.EmulatesTPM())
}
