package inventory

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// looks are the calls of LookAgain, or of ReadAgain, for one host.
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
	return inv.look(ctx, h, &h.looks, inv.compare)
}

// ReadAgain is LookAgain for a caller that has to see all changes: it reads the definitions of all VMs of the host.
func (inv *Inventory) ReadAgain(ctx context.Context, h *Host) error {
	return inv.look(ctx, h, &h.readings, inv.compareAll)
}

// look waits for a comparison that begins from now on. All who wait share it.
func (inv *Inventory) look(
	ctx context.Context, h *Host, all *looks, compare func(context.Context, *Host) error,
) error {
	if err := silentIn(ctx, h); err != nil {
		return err
	}

	all.mu.Lock()

	l := all.next
	if l == nil {
		l = &look{done: make(chan struct{})}
		all.next = l

		inv.background.Go(func() { inv.lookAgain(h, all, l, compare) }) //nolint:contextcheck // it serves all who wait for it
	}
	all.mu.Unlock()

	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (inv *Inventory) lookAgain(h *Host, all *looks, l *look, compare func(context.Context, *Host) error) {
	all.running.Lock()
	defer all.running.Unlock()

	all.mu.Lock()
	all.next = nil // who comes from now on needs a later one
	all.mu.Unlock()

	ctx, cancel := context.WithTimeout(inv.lifetime, AskTimeout)
	defer cancel()

	l.err = compare(ctx, h)
	close(l.done)
}

// compare reads again what differs from the host's view, by name or power.
func (inv *Inventory) compare(ctx context.Context, h *Host) error {
	all, err := h.Conn.Stats(ctx, libvirt.StatsState)
	if err != nil {
		return err
	}

	lacks := make(map[string]bool, len(all))

	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return err
	}

	for _, d := range all {
		lacks[d.UUID] = v.lacks(d)
	}

	return inv.refreshDiffering(ctx, h, v, lacks)
}

// compareAll reads again what differs from the host's view in any way.
func (inv *Inventory) compareAll(ctx context.Context, h *Host) error {
	all, err := h.Conn.Domains(ctx)
	if err != nil {
		return err
	}

	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return err
	}

	lacks := make(map[string]bool, len(all))
	for _, d := range all {
		lacks[d.UUID] = !v.has(d.UUID, &d)
	}

	return inv.refreshDiffering(ctx, h, v, lacks)
}

// refreshDiffering reads those of the host's VMs again that the view lacks, and those that the host hasn't any more.
// lacks has all VMs of the host. What it was made from isn't put into the view: this run may have changed a VM since.
func (inv *Inventory) refreshDiffering(ctx context.Context, h *Host, v *View, lacks map[string]bool) error {
	if v.Err != nil {
		return v.Err
	}

	var differ []string

	for uuid, differs := range lacks {
		if differs {
			differ = append(differ, uuid)
		}
	}

	for uuid := range v.Domains {
		if _, there := lacks[uuid]; !there {
			differ = append(differ, uuid)
		}
	}

	inv.RefreshVMs(ctx, h.Name, differ)

	return nil
}

// lacks reports whether the view doesn't have the domain, or not under its name, or not as running or off as it is.
func (v *View) lacks(d libvirt.DomainStats) bool {
	e := v.Domains[d.UUID]

	return e == nil || e.Name != d.Name || e.State != d.State && e.Active() != d.State.Active()
}
