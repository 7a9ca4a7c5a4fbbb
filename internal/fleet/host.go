package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// viewAge is how long what a host said in bulk is good for. A plan of a
	// thousand machines takes seconds; a minute covers it and its checks.
	// Whatever changes a machine never relies on it.
	viewAge = time.Minute
	// viewTimeout bounds one bulk reading of one host, connecting included.
	viewTimeout = time.Minute
)

// host is one configured host and what it said last.
type host struct {
	name string
	cfg  HostConfig
	conn *libvirt.Host

	files seenFiles

	mu   sync.Mutex
	view *view
	// loading is the reading that who asks now may wait for. One that began before
	// something was written is not it any more: what it brings is too old.
	loading *loading
}

// view is what a host said when it was asked for everything at once.
type view struct {
	info    *libvirt.HostInfo
	domains map[string]*entry // by UUID
	err     error             // nil: the host answered
	record  *recordCell
	at      time.Time
}

// loading is a view that is being made; done is closed when it is there.
type loading struct {
	done chan struct{}
	view *view
}

// entry is one domain of a view. Parsing its XML waits until somebody asks: a
// plan for five machines should not pay for the other thousand.
type entry struct {
	libvirt.Domain

	once   sync.Once
	parsed parsedDomain
}

// parsedDomain is what the XML says; each part is nil where there is no such
// definition. It is shared by all readers and never changed.
type parsedDomain struct {
	persistent, live         *domain.Definition
	persistentSpec, liveSpec *domain.Spec
	err                      error
}

func newEntry(d libvirt.Domain) *entry { return &entry{Domain: d} }

func (e *entry) parse() parsedDomain {
	e.once.Do(func() {
		var persistentErr, liveErr error

		e.parsed.persistent, e.parsed.persistentSpec, persistentErr = parseXML(e.PersistentXML)
		e.parsed.live, e.parsed.liveSpec, liveErr = parseXML(e.LiveXML)
		e.parsed.err = errors.Join(persistentErr, liveErr)
	})

	return e.parsed
}

func parseXML(xml string) (*domain.Definition, *domain.Spec, error) {
	if xml == "" {
		return nil, nil, nil
	}

	definition, err := domain.Parse(xml)
	if err != nil {
		return nil, nil, err
	}

	spec := definition.Spec()

	return definition, &spec, nil
}

// definition is the one that describes the machine: the persistent, or the live
// one of a transient domain. It is nil when neither could be read.
func (p parsedDomain) definition() *domain.Definition {
	if p.persistent != nil {
		return p.persistent
	}

	return p.live
}

// current is the definition that describes what there is now: the live one of a
// machine that runs, else the persistent one.
func (p parsedDomain) current() *domain.Definition {
	if p.live != nil {
		return p.live
	}

	return p.persistent
}

// viewOf returns the host's view, loading it when there is none. Everybody who
// asks meanwhile waits for the same loading, which is bound to the fleet's life
// and not to the caller who happened to be first.
func (f *Fleet) viewOf(ctx context.Context, h *host) (*view, error) {
	h.mu.Lock()
	if h.view != nil && time.Since(h.view.at) < viewAge {
		defer h.mu.Unlock()

		return h.view, nil
	}

	l := h.loading
	if l == nil {
		l = &loading{done: make(chan struct{})}
		h.loading = l

		f.background.Go(func() { f.load(h, l) }) //nolint:contextcheck // it serves all who wait, not this caller
	}
	h.mu.Unlock()

	select {
	case <-l.done:
		return l.view, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (f *Fleet) load(h *host, l *loading) {
	ctx, cancel := context.WithTimeout(f.lifetime, viewTimeout)
	defer cancel()

	began := time.Now()
	v := readView(ctx, h)
	v.at = time.Now()

	if v.err != nil {
		f.log.WarnContext(ctx, "host did not answer", "host", h.name, "error", v.err.Error())
	} else {
		f.log.DebugContext(ctx, "host read", "host", h.name, "domains", len(v.domains), "elapsed", v.at.Sub(began))
	}

	h.publish(l, v)
}

// publish hands the view to all who wait for it, and to whoever comes next,
// unless something was written since its loading began.
func (h *host) publish(l *loading, v *view) {
	h.mu.Lock()
	if h.loading == l {
		h.view, h.loading = v, nil
	}
	h.mu.Unlock()

	l.view = v
	close(l.done)
}

func readView(ctx context.Context, h *host) *view {
	v := &view{record: &recordCell{}}

	var wg sync.WaitGroup

	var infoErr, domainsErr error

	wg.Go(func() { v.info, infoErr = h.conn.Info(ctx) })
	wg.Go(func() {
		var domains []libvirt.Domain

		domains, domainsErr = h.conn.Domains(ctx)
		v.domains = make(map[string]*entry, len(domains))

		for _, d := range domains {
			v.domains[d.UUID] = newEntry(d)
		}
	})
	wg.Wait()

	v.err = infoErr
	if v.err == nil {
		v.err = domainsErr
	}

	return v
}

// forget makes the next reader ask the host again.
func (h *host) forget() {
	h.mu.Lock()
	h.view, h.loading = nil, nil
	h.mu.Unlock()
}

// saidLast tells whether the view is what the host said last, as far as is known.
func (h *host) saidLast(v *view) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.view == v
}

// remember puts what was just read of one domain into the view, so that our own
// writes don't cost everybody a new bulk reading. A nil domain is gone.
func (h *host) remember(uuid string, d *libvirt.Domain) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.loading = nil // It may have passed the domain before.

	if h.view == nil || h.view.err != nil {
		return
	}

	// Readers hold the old map: replace it instead of changing it.
	next := *h.view
	next.domains = make(map[string]*entry, len(h.view.domains)+1)

	for k, e := range h.view.domains {
		next.domains[k] = e
	}

	if d == nil {
		delete(next.domains, uuid)
	} else {
		next.domains[uuid] = newEntry(*d)
	}

	h.view = &next
}

func byHostName(a, b *host) int { return strings.Compare(a.name, b.name) }
