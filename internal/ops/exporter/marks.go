package exporter

import (
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// maxMarks limits how many VMs of a host are kept, in case no scrape ever happens. If there are that many, the next
// scrape reads all VMs of the host.
const maxMarks = 100

// marks are the VMs whose metadata changed since the last scrape, such as by the mark of a drain, by their hosts.
type marks struct {
	mu  sync.Mutex
	vms map[string]map[string]bool
}

// noteEvent records an event of a host. It never blocks.
func (m *marks) noteEvent(e fleet.Event) {
	if e.Kind != libvirt.EventMetadata || e.Reason != domain.MetadataNamespace {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vms == nil {
		m.vms = map[string]map[string]bool{}
	}
	if m.vms[e.Host] == nil {
		m.vms[e.Host] = map[string]bool{}
	}
	if len(m.vms[e.Host]) < maxMarks {
		m.vms[e.Host][e.UUID] = true
	}
}

// take returns the VMs of the host, and forgets them.
func (m *marks) take(host string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	vms := slices.Sorted(maps.Keys(m.vms[host]))
	delete(m.vms, host)
	return vms
}
