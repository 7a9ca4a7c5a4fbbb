package migration

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Parts are the parts of a host that a VM can be bound to.
func Parts(info *libvirt.HostInfo) domain.HostParts {
	parts := domain.HostParts{Pages: map[uint64]uint64{}}
	for _, cell := range info.Cells {
		parts.Nodes = append(parts.Nodes, cell.ID)
		parts.CPUs = append(parts.CPUs, cell.CPUs...)
		for _, pool := range cell.Pages {
			parts.Pages[pool.SizeBytes] += pool.Pages
		}
	}
	return parts
}

// parts checks that the target has what the VM is bound to.
func (t toTarget) parts(_ context.Context, f *finding) {
	memory := uint64(0)
	if t.machine.Live() {
		memory = t.machine.Facts.Memory
	}
	for _, p := range t.machine.Facts.Facts.Lacking(Parts(t.to), memory) {
		f.block(HostResourcesNotAvailable, p.Path, fmt.Sprintf("host %q %s", t.target.Name(), p.Message),
			"Choose another host, or bind the VM to what all of its hosts have.")
	}
}
