package placement

import (
	"cmp"
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// lackedDevice is a device that a host can't give to a VM. The remedy is "" if the host doesn't have the device.
type lackedDevice struct {
	domain.Problem

	remedy string
}

// lackedDevices returns the devices of the use that the host doesn't have and, if the VM runs there, those that it
// can't give to a VM.
func lackedDevices(ctx context.Context, h *inventory.Host, use domain.HostUse, runs bool) []lackedDevice {
	var all []lackedDevice

	info, err := h.Conn.Info(ctx)
	noIOMMU := err == nil && info.LacksIOMMU && runs

	for _, part := range use.Parts() {
		switch {
		case h.LacksDevice(ctx, part):
			all = append(all, lackedDevice{domain.Problem{Path: use.Alone[part], Message: "has no " + part.String()}, ""})
		case noIOMMU && part.Kind == domain.PCIDevice:
			all = append(all, lackedDevice{domain.Problem{
				Path: use.Alone[part], Message: "can't give " + part.String() + " to a VM, " + migration.NoIOMMU,
			}, migration.IOMMURemedy})
		}
	}

	return all
}

// lackedBlockers returns a blocker for each device that lackedDevices returns. The remedy is for devices that the host
// doesn't have.
func lackedBlockers(
	ctx context.Context, h *inventory.Host, use domain.HostUse, runs bool, remedy string,
) []migration.Blocker {
	var blockers []migration.Blocker
	for _, lacked := range lackedDevices(ctx, h, use, runs) {
		blockers = append(blockers, migration.Blocker{
			Reason: migration.HostResourcesNotAvailable, Status: status.False, Attribute: lacked.Path,
			Message: fmt.Sprintf("host %q %s", h.Name, lacked.Message), Remedy: cmp.Or(lacked.remedy, remedy),
		})
	}

	return blockers
}

// FailoverBlockers returns the devices of transient interfaces (teaming) that the host lacks, for a VM that is moved
// there while it runs: libvirt opens the devices when QEMU starts on the host.
func FailoverBlockers(ctx context.Context, to *inventory.Host, running *domain.Spec) []migration.Blocker {
	if running == nil {
		return nil
	}

	return lackedBlockers(ctx, to, running.FailoverUse(), true,
		"Choose another host, or unplug the transient interface before the move.")
}

// DeviceBlockers returns what prevents a host from providing the host devices of a VM that is moved there while it is
// off: the host lacks a device that is declared by its address, has no free device of a class, or no free slot for the
// key.
func (p *Planner) DeviceBlockers(ctx context.Context, a inventory.Reply, vm *inventory.VM) []migration.Blocker {
	if vm.PersistentSpec == nil {
		return nil
	}

	blockers := lackedBlockers(ctx, a.Host, vm.Entry.DefinedUse().OnOtherHost(), vm.Active,
		"Choose another host, or declare the device by a class (hosts.<name>.devices).")

	use, _, short := p.arrivalUse(ctx, a, vm, 0)
	for _, full := range p.takenSlots(ctx, a, vm.Name, use, "") {
		blockers = append(blockers, migration.Blocker{
			Reason: migration.HostResourcesTaken, Status: status.False, Attribute: full.Path,
			Message: fmt.Sprintf("host %q %s", a.Host.Name, full.Message), Remedy: takenRemedy,
		})
	}

	return append(blockers, short...)
}

// shortageBlockers returns the blockers that the host can't provide these devices.
func shortageBlockers(h *inventory.Host, short []deviceShortage) []migration.Blocker {
	blockers := make([]migration.Blocker, len(short))
	for i, s := range short {
		blockers[i] = migration.Blocker{
			Reason: migration.HostResourcesNotAvailable, Status: status.False, Attribute: s.Path,
			Message: fmt.Sprintf("host %q %s", h.Name, s.Message),
			Remedy:  cmp.Or(s.remedy, "Choose another host, or list devices of the class in its hosts.<name>.devices."),
		}
		if s.taken {
			blockers[i].Reason, blockers[i].Remedy = migration.HostResourcesTaken, takenRemedy
		}
	}

	return blockers
}

// freeDevices returns how many devices of each class are not used by a VM.
func freeDevices(h *inventory.Host, others map[string]domain.HostUse) map[string]uint64 {
	free := make(map[string]uint64, len(h.Config.Devices))

	for class, parts := range h.Config.Devices {
		for _, part := range parts {
			taken := false
			for _, use := range others {
				taken = taken || use.Alone[part] != ""
			}

			if !taken {
				free[class]++
			}
		}
	}

	return free
}
