package placement

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// missingDevices returns the devices of the use that the host doesn't have and, if the VM runs there, those that it
// can't give to a VM.
func missingDevices(ctx context.Context, h *inventory.Host, use domain.HostUse, runs bool) []shortage {
	var all []shortage

	info, err := h.Conn.Info(ctx)
	noIOMMU := err == nil && info.LacksIOMMU && runs

	for _, part := range use.Parts() {
		switch {
		case h.LacksDevice(ctx, part):
			all = append(all, shortage{
				Problem: domain.Problem{Path: use.Alone[part], Message: "has no " + part.String()},
				reason:  migration.HostResourcesNotAvailable,
			})
		case noIOMMU && part.Kind == domain.PCIDevice:
			all = append(all, shortage{Problem: domain.Problem{
				Path: use.Alone[part], Message: "can't give " + part.String() + " to a VM, " + migration.NoIOMMU,
			}, reason: migration.HostResourcesNotAvailable, remedy: migration.IOMMURemedy})
		}
	}

	return all
}

// FailoverBlockers returns the devices of transient interfaces (teaming) that the host lacks, for a VM that is moved
// there while it runs: libvirt opens the devices when QEMU starts on the host.
func FailoverBlockers(ctx context.Context, to *inventory.Host, running *domain.Spec) []migration.Blocker {
	if running == nil {
		return nil
	}

	return shortageBlockers(to.Name, missingDevices(ctx, to, running.FailoverUse(), true),
		"Choose another host, or unplug the transient interface before the move.")
}

// DeviceBlockers returns what prevents a host from providing the host devices of a VM that is moved there while it is
// off: the host lacks a device that is declared by its address, has no free device of a class, or no free slot for the
// key. starts is as for ReserveArrival.
func (p *Scheduler) DeviceBlockers(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, starts bool,
) []migration.Blocker {
	if vm.PersistentSpec == nil {
		return nil
	}

	short := missingDevices(ctx, a.Host, vm.Entry.DefinedUse().OnOtherHost(), starts)
	use, _, refused := p.arrivalUse(ctx, a, vm, starts)
	short = append(short, p.takenSlots(ctx, a, vm.Name, use, "")...)

	return append(shortageBlockers(a.Host.Name, short,
		"Choose another host, or declare the device by a class (hosts.<name>.devices)."), refused...)
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
