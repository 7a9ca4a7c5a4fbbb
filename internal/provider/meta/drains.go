package meta

import (
	"slices"
	"sync"
)

// Drains are the drains of hosts that were planned since the provider was configured.
type Drains struct {
	mu sync.Mutex
	// targets are the hosts to which VMs move, by the host that is drained.
	targets map[string][]string
}

// Plans records that a host is drained by moving VMs to the targets. It returns the other hosts whose planned drains
// don't fit together with this one: one of the two moves VMs to the other's host. Whichever of two is planned second
// learns it.
func (d *Drains) Plans(host string, targets []string) (others []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.targets == nil {
		d.targets = make(map[string][]string)
	}
	d.targets[host] = targets
	for other, its := range d.targets {
		if other != host && (slices.Contains(targets, other) || slices.Contains(its, host)) {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	return others
}
