package inventory

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// seenControllers are the controllers of cgroups that a host's VMs had in a view, by UUID.
type seenControllers struct {
	mu  sync.Mutex
	has map[string]map[libvirt.Controller]bool
}

// HasController is libvirt.Host.HasController, as of the view: all VMs with limits of a plan ask the same.
func (v *View) HasController(ctx context.Context, h *Host, uuid string, c libvirt.Controller) (bool, error) {
	v.controllers.mu.Lock()
	has, known := v.controllers.has[uuid][c]
	v.controllers.mu.Unlock()

	if known {
		return has, nil
	}

	has, err := h.Conn.HasController(ctx, uuid, c)
	if err != nil {
		return false, err
	}

	v.controllers.mu.Lock()
	defer v.controllers.mu.Unlock()

	if v.controllers.has == nil {
		v.controllers.has = map[string]map[libvirt.Controller]bool{}
	}

	if v.controllers.has[uuid] == nil {
		v.controllers.has[uuid] = map[libvirt.Controller]bool{}
	}

	v.controllers.has[uuid][c] = has

	return has, nil
}
