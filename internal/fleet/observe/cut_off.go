package observe

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// CutOff returns the interfaces of a running VM that libvirt no longer connects to the bridges that it created for
// their networks. libvirt removes a network's ports when it stops the network. It makes them again, and connects the
// interfaces, only when the VM or libvirt itself starts.
func (ob *Observer) CutOff(ctx context.Context, vm *inventory.VM) ([]status.CutOff, error) {
	if !vm.Active || vm.Entry == nil {
		return nil, nil
	}

	var cut []status.CutOff

	missing := make(map[string]bool)

	for _, a := range attached(vm.Entry.Parse().Live) {
		has, err := vm.On.HasNetworkPort(ctx, a.Network, a.Port)
		if err != nil {
			return nil, err
		}

		if !has {
			missing[a.Port] = true
			cut = append(cut, status.CutOff{Interface: a.Key, Network: a.Network})
		}
	}

	if len(cut) == 0 {
		return nil, nil
	}

	// If the VM was started again or moved since it was read, it has other ports.
	now, err := vm.On.Conn.Domain(ctx, vm.UUID)

	switch {
	case inventory.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}

	for _, a := range attached(inventory.NewEntry(*now).Parse().Live) {
		delete(missing, a.Port)
	}

	if len(missing) > 0 {
		return nil, nil
	}

	return cut, nil
}

// attached returns the interfaces that libvirt has connected to bridges of its own.
func attached(live *domain.Definition) (all []domain.Attachment) {
	if live == nil {
		return nil
	}

	for _, a := range live.Attachments() {
		if a.Port != "" {
			all = append(all, a)
		}
	}

	return all
}

func (o *observing) askPorts(ctx context.Context) {
	cut, err := o.observer.CutOff(ctx, o.vm)
	if err != nil {
		o.failed(PartPorts, err)

		return
	}

	o.cutOff = append([]status.CutOff{}, cut...)
}
