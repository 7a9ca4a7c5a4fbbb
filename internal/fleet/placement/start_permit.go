package placement

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// StartPermit allows one VM to be started on the host where it is. StartAlone requires it, and only this package gives
// it: Admit to a VM that requires room, AdmitNew to a VM whose room was reserved when it was placed, and AdmitReturn to
// a VM that this run shut down there.
type StartPermit struct {
	uuid    string
	on      *inventory.Host
	release func()
	// returns says that this run shut the VM down, or is about to, so that nothing else may keep it off.
	returns bool
	// room says that other runs can't place VMs on the host until Release.
	room bool
}

// Release returns the room that is reserved for the start. A VM that was started is counted without it.
func (s *StartPermit) Release() { s.release() }

// verify returns an error if the VM isn't the one that may be started, or is on another host by now.
func (s *StartPermit) verify(vm *inventory.VM) error {
	if s == nil || s.uuid != vm.UUID || s.on != vm.On {
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Detail: "it has no permit to start there",
		}
	}

	return nil
}

func permitStart(vm *inventory.VM, release func()) *StartPermit {
	return &StartPermit{uuid: vm.UUID, on: vm.On, release: sync.OnceFunc(release)}
}

// AdmitNew allows a VM that is being created to be started on the host where it was placed, which has reserved room for
// it. Another run may have cordoned that host since the VM was defined.
func (p *Scheduler) AdmitNew(ctx context.Context, vm *inventory.VM) (*StartPermit, error) {
	refused, err := p.startBlockers(ctx, vm)
	if err == nil {
		err = unlessRefused(vm, refused)
	}

	if err != nil {
		return nil, err
	}

	return permitStart(vm, func() {}), nil
}

// AdmitReturn allows a VM that this run shut down to be started again where it ran, because it can't leave its host.
// Its room is checked by libvirt alone, and the cordon of the host is this run's own.
func (p *Scheduler) AdmitReturn(vm *inventory.VM) *StartPermit {
	permit := permitStart(vm, func() {})
	permit.returns = true

	return permit
}
