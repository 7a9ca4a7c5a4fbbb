package inventory

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// looks are the calls of LookAgain for one host.
type looks struct {
	// running is held by the look that asks the host.
	running sync.Mutex

	mu sync.Mutex
	// next is a look that hasn't begun, nil if there is none.
	next *look
}

// look is one comparison of a host with its view; done is closed when it is over.
type look struct {
	done chan struct{}
	err  error
}

// LookAgain brings a host's view up to date with what other runs and users did: it asks which VMs the host has now, and
// which of them run, in one call that doesn't wait for any VM, and reads again those that differ from the view. Changes
// of a VM that was running before, and still is, are not seen. Callers that wait for it at the same time share a call
// that began after each of them called. A host that didn't answer in this operation isn't asked.
func (inv *Inventory) LookAgain(ctx context.Context, h *Host) error {
	if err := silentIn(ctx, h); err != nil {
		return err
	}

	h.looks.mu.Lock()

	l := h.looks.next
	if l == nil {
		l = &look{done: make(chan struct{})}
		h.looks.next = l

		inv.background.Go(func() { inv.lookAgain(h, l) }) //nolint:contextcheck // it serves all who wait for it
	}
	h.looks.mu.Unlock()

	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (inv *Inventory) lookAgain(h *Host, l *look) {
	h.looks.running.Lock()
	defer h.looks.running.Unlock()

	h.looks.mu.Lock()
	h.looks.next = nil // who comes from now on needs a later one
	h.looks.mu.Unlock()

	ctx, cancel := context.WithTimeout(inv.lifetime, AskTimeout)
	defer cancel()

	l.err = inv.compare(ctx, h)
	close(l.done)
}

// compare reads again what differs from the host's view.
func (inv *Inventory) compare(ctx context.Context, h *Host) error {
	all, err := h.Conn.Stats(ctx, libvirt.StatsState)
	if err != nil {
		return err
	}

	v, err := inv.ViewOf(ctx, h)
	if err == nil {
		err = v.Err
	}

	if err != nil {
		return err
	}

	var differ []string

	there := make(map[string]bool, len(all))

	for _, d := range all {
		there[d.UUID] = true
		if v.lacks(d) {
			differ = append(differ, d.UUID)
		}
	}

	for uuid := range v.Domains {
		if !there[uuid] {
			differ = append(differ, uuid)
		}
	}

	inv.RefreshVMs(ctx, h.Name, differ)

	return nil
}

// lacks reports whether the view doesn't have the domain, or not under its name, or not as running or off as it is.
func (v *View) lacks(d libvirt.DomainStats) bool {
	e := v.Domains[d.UUID]

	return e == nil || e.Name != d.Name || e.Active() != d.State.Active()
}
