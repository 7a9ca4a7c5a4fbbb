package migration

import (
	"context"
	"fmt"
	"strconv"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostTopology are the parts of a host that a VM can be bound to.
func HostTopology(info *libvirt.HostInfo) domain.HostTopology {
	parts := domain.HostTopology{
		Pages: map[uint64]uint64{}, NodePages: map[int]map[uint64]uint64{}, SecurityModels: info.SecurityModels,
	}
	for _, cell := range info.Cells {
		parts.Nodes = append(parts.Nodes, cell.ID)
		parts.CPUs = append(parts.CPUs, cell.CPUs...)
		parts.NodePages[cell.ID] = map[uint64]uint64{}
		for _, pool := range cell.Pages {
			parts.NodePages[cell.ID][pool.SizeBytes] += pool.Pages
			parts.Pages[pool.SizeBytes] += pool.Pages
		}
	}
	if len(info.Cells) > 0 { // Otherwise its capabilities weren't read.
		parts.Allocations = map[string][]int{domain.MemoryBandwidth: info.MemoryBandwidth}
		for _, cache := range info.Caches {
			name := domain.CacheName(strconv.Itoa(cache.Level), cache.Type)
			parts.Allocations[name] = append(parts.Allocations[name], cache.ID)
		}
	}
	return parts
}

// checkHostTopology checks that the target has what the VM is bound to.
func (t preflight) checkHostTopology(_ context.Context, f *blockerList) {
	var pages map[uint64]uint64
	if t.vm.Live() {
		pages = t.vm.Mobility.Pages
	}
	for _, p := range t.vm.Mobility.Values.Lacking(HostTopology(t.to), pages) {
		f.block(HostResourcesNotAvailable, p.Path, fmt.Sprintf("host %q %s", t.target.Name(), p.Message),
			"Choose another host, or bind the VM to what all of its hosts have.")
	}
}
