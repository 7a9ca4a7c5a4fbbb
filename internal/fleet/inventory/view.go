package inventory

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ViewOf returns the host's view, and loads it if there is none. All callers share one reading. The reading is bound to
// the life of the fleet, not to the caller that started it.
func (inv *Inventory) ViewOf(ctx context.Context, h *Host) (*View, error) {
	h.mu.Lock()
	if h.view != nil && time.Since(h.view.at) < viewAge {
		defer h.mu.Unlock()

		return h.view, nil
	}

	l := h.loading
	if l == nil {
		l = inv.startLoading(h) //nolint:contextcheck // the reading serves all waiting callers, not only this one
	}
	h.mu.Unlock()

	return l.await(ctx)
}

// Renew queries the host again, once. Meanwhile, readers that don't wait get the view from before; afterwards, every
// reader gets what the host reported since Renew was called, or queries it.
func (inv *Inventory) Renew(ctx context.Context, h *Host) error {
	h.mu.Lock()
	l := inv.startLoading(h) //nolint:contextcheck // as above
	h.mu.Unlock()

	for {
		if _, err := l.await(ctx); err != nil {
			return err
		}

		h.mu.Lock()

		published, next := l.published, h.loading
		if !published && next == nil {
			h.view = nil // no reading has the last write: the next reader queries the host, and Renew need not wait for it
		}

		h.mu.Unlock()

		if published || next == nil {
			return nil
		}

		l = next // that reading began later
	}
}

// startLoading starts a bulk reading of the host. The caller holds the host's mutex.
func (inv *Inventory) startLoading(h *Host) *loading {
	l := &loading{done: make(chan struct{})}
	h.loading = l

	inv.background.Go(func() { inv.load(h, l) })

	return l
}

func (l *loading) await(ctx context.Context) (*View, error) {
	select {
	case <-l.done:
		return l.view, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (inv *Inventory) load(h *Host, l *loading) {
	ctx, cancel := context.WithTimeout(inv.lifetime, viewTimeout)
	defer cancel()

	began := time.Now()
	v := readView(ctx, h)
	v.at = time.Now()

	switch {
	case v.Err == nil:
		inv.log.DebugContext(ctx, "host read", "host", h.Name, "domains", len(v.Domains), "elapsed", v.at.Sub(began))
	case inv.lifetime.Err() != nil:
		// What was read ahead may be unfinished when the run ends. That says nothing about the host.
		inv.log.DebugContext(ctx, "host not read before the end", "host", h.Name, "error", v.Err.Error())
	default:
		inv.log.WarnContext(ctx, "host did not answer", "host", h.Name, "error", v.Err.Error())
	}

	h.publish(l, v)
}

// publish hands the view to all who wait for it. It becomes the host's view unless it was forgotten since its reading
// began. The view includes the domains that were written meanwhile.
func (h *Host) publish(l *loading, v *View) {
	h.mu.Lock()
	v = h.withWritten(v, l.written)

	if h.loading == l {
		h.view, h.loading = v, nil
		h.known = v.Domains
		l.published = true
	}
	h.mu.Unlock()

	l.view = v
	close(l.done)
}

func readView(ctx context.Context, h *Host) *View {
	v := NewView(nil, nil)

	var wg sync.WaitGroup

	var infoErr, domainsErr error

	wg.Go(func() { v.Info, infoErr = h.Conn.Info(ctx) })
	wg.Go(func() {
		var domains []libvirt.Domain

		domains, domainsErr = h.Conn.Domains(ctx)
		v.Domains = make(map[string]*Entry, len(domains))

		for _, d := range domains {
			v.Domains[d.UUID] = h.entryOf(d)
		}

		addJobs(ctx, h.Conn, v.Domains)
	})
	// Nearly every reader of a view needs the record as well. Asked for later, it costs each plan further round trips.
	// An error is left to the reader who needs it.
	wg.Go(func() { _, _ = v.recordOf(ctx, h) })
	wg.Wait()

	v.Err = infoErr
	if v.Err == nil {
		v.Err = domainsErr
	}

	return v
}

// entryOf returns an entry for the domain that was just read: the one that is already parsed if the domain hasn't
// changed.
func (h *Host) entryOf(d libvirt.Domain) *Entry {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.knownEntry(d)
}

// knownEntry is entryOf for callers that hold the host's mutex.
func (h *Host) knownEntry(d libvirt.Domain) *Entry {
	if e := h.known[d.UUID]; e != nil && e.Domain == d {
		return e
	}

	return NewEntry(d)
}

// Forget makes the next reader query the host again.
func (h *Host) Forget() {
	h.mu.Lock()
	h.view, h.loading = nil, nil
	h.mu.Unlock()
}

// IsLatest reports whether the view is the host's last one.
func (h *Host) IsLatest(v *View) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.view == v
}

// Remember puts a domain that was just read into the view, so that the provider's own writes don't cost every reader
// another bulk reading. A nil domain is gone.
func (h *Host) Remember(uuid string, d *libvirt.Domain) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if l := h.loading; l != nil {
		if l.written == nil {
			l.written = make(map[string]*libvirt.Domain)
		}

		l.written[uuid] = d
	}

	if h.view != nil && h.view.Err == nil && !h.view.has(uuid, d) {
		h.view = h.withWritten(h.view, map[string]*libvirt.Domain{uuid: d})
		h.known = h.view.Domains
	}
}

// has reports whether the view says of a domain what was read: then it stays the latest view. Otherwise, waits that
// read their VMs again and again would keep what needs the latest view, such as a reservation, from ever having it.
func (v *View) has(uuid string, d *libvirt.Domain) bool {
	e := v.Domains[uuid]
	if e == nil || d == nil {
		return e == nil && d == nil
	}

	return e.Domain == *d
}

// withWritten returns the view with the written domains; a nil domain is gone. The caller holds the host's mutex.
func (h *Host) withWritten(v *View, written map[string]*libvirt.Domain) *View {
	if len(written) == 0 || v.Err != nil {
		return v
	}

	// Readers hold the old map: replace the map instead of changing it.
	next := v.With(make(map[string]*Entry, len(v.Domains)+len(written)))
	maps.Copy(next.Domains, v.Domains)

	for uuid, d := range written {
		if d == nil {
			delete(next.Domains, uuid)
		} else {
			next.Domains[uuid] = h.knownEntry(*d)
		}
	}

	return next
}
