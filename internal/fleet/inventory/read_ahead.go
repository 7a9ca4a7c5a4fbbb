package inventory

import "context"

// ReadAhead begins to read the hosts of these names, except fenced ones, and doesn't wait. It is for the reading of
// pools, networks and volumes: the plan of a VM that uses them begins when they are read, and would otherwise wait for
// its hosts once more. A host that doesn't answer is asked again by the next reader.
func (inv *Inventory) ReadAhead(names []string) {
	for _, name := range names {
		h := inv.Host(name)
		if h == nil || h.Config.Fenced {
			continue
		}

		h.mu.Lock()
		if h.view == nil && h.loading == nil {
			l := inv.startLoading(h)
			inv.background.Go(func() { h.forgetFailed(inv.lifetime, l) })
		}
		h.mu.Unlock()
	}
}

// forgetFailed waits for a reading, and forgets its view if the host didn't answer.
func (h *Host) forgetFailed(ctx context.Context, l *loading) {
	v, err := l.await(ctx)
	if err != nil || v.Err == nil {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	if h.view == v {
		h.view = nil
	}
}
