package inventory

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// viewAge is how long what a host said in bulk is good for. A plan of a thousand VMs takes seconds; a minute covers it
	// and its checks. Whatever changes a VM never relies on it.
	viewAge = time.Minute
	// viewTimeout bounds one bulk reading of one host, connecting included.
	viewTimeout = time.Minute
)

// Host is one configured host and what it said last.
type Host struct {
	Name   string
	Config HostConfig
	Conn   *libvirt.Host

	files    seenFiles
	networks ownNetworks
	devices  seenDevices
	postCopy postCopy

	mu   sync.Mutex
	view *View
	// loading is the reading that who asks now may wait for. One that began before something was written is not it any
	// more: what it brings is too old.
	loading *loading
}

// View is what a host said when it was asked for everything at once.
type View struct {
	Info    *libvirt.HostInfo
	Domains map[string]*Entry // by UUID
	Err     error             // nil: the host answered
	record  *recordCell
	index   *viewIndex
	at      time.Time
}

// NewView is what a host said of itself and of its domains.
func NewView(info *libvirt.HostInfo, domains map[string]*Entry) *View {
	return &View{Info: info, Domains: domains, record: &recordCell{}, index: &viewIndex{}}
}

// With is the same reading with other domains.
func (v *View) With(domains map[string]*Entry) *View {
	other := *v
	other.Domains, other.index = domains, &viewIndex{}

	return &other
}

// loading is a view that is being made; done is closed when it is there.
type loading struct {
	done chan struct{}
	view *View
}

// Entry is one domain of a view. Parsing its XML waits until it is needed: a plan for five VMs should not pay for the
// other thousand.
type Entry struct {
	libvirt.Domain

	once   sync.Once
	parsed ParsedDomain

	metadataOnce sync.Once
	metadata     domain.Metadata

	overheadOnce sync.Once
	overhead     uint64

	useOnce sync.Once
	use     domain.HostUse

	diskUsesOnce sync.Once
	diskUses     []domain.DiskUse
}

// ParsedDomain is what the XML says; each part is nil where there is no such definition. It is shared by all readers
// and never changed.
type ParsedDomain struct {
	Persistent, Live         *domain.Definition
	persistentSpec, LiveSpec *domain.Spec
	Err                      error
}

// NewEntry is a domain as its host has just told of it.
func NewEntry(d libvirt.Domain) *Entry { return &Entry{Domain: d} }

// Parse is what its XML says, which is parsed once.
func (e *Entry) Parse() ParsedDomain {
	e.once.Do(func() {
		var persistentErr, liveErr error

		e.parsed.Persistent, e.parsed.persistentSpec, persistentErr = parseXML(e.PersistentXML)
		e.parsed.Live, e.parsed.LiveSpec, liveErr = parseXML(e.LiveXML)
		e.parsed.Err = errors.Join(persistentErr, liveErr)
	})

	return e.parsed
}

// OwnMetadata is the metadata of the definition, which must be there. It is shared: don't change it.
func (e *Entry) OwnMetadata() domain.Metadata {
	e.metadataOnce.Do(func() { e.metadata = e.Parse().Definition().Metadata() })

	return e.metadata
}

// Overhead is how many bytes QEMU needs in addition to the guest's memory.
func (e *Entry) Overhead() uint64 {
	e.overheadOnce.Do(func() {
		if current := e.Parse().Current(); current != nil {
			e.overhead = current.Overhead()
		}
	})

	return e.overhead
}

// HostUse is what the domain has of its host: as it runs, or as it will run when the host starts it. One that is off
// otherwise has nothing.
func (e *Entry) HostUse() domain.HostUse {
	e.useOnce.Do(func() {
		switch p := e.Parse(); {
		case p.Live != nil:
			e.use = p.Live.HostUse(*p.LiveSpec)
		case p.Persistent != nil && (e.Autostart || e.OwnMetadata().Creating != nil):
			e.use = p.Persistent.HostUse(*p.persistentSpec)
		}
	})

	return e.use
}

// DefinedUse is what the domain would have of its host if it were started as it is defined.
func (e *Entry) DefinedUse() domain.HostUse {
	if spec := e.Parse().persistentSpec; spec != nil {
		return spec.HostUse()
	}

	return domain.HostUse{}
}

// DiskUses are the disks that the domain writes to: those of what runs, and of what its host starts. They are shared:
// don't change them.
func (e *Entry) DiskUses() []domain.DiskUse {
	e.diskUsesOnce.Do(func() {
		p := e.Parse()
		if p.Live != nil {
			e.diskUses = p.Live.DiskUses()
		}

		if p.Persistent != nil && (e.Autostart || p.Live == nil) {
			e.diskUses = append(e.diskUses, p.Persistent.DiskUses()...)
		}
	})

	return e.diskUses
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

// Definition is the one that describes the VM: the persistent, or the live one of a transient domain. It is nil when
// neither could be read.
func (p ParsedDomain) Definition() *domain.Definition {
	if p.Persistent != nil {
		return p.Persistent
	}

	return p.Live
}

// Current is the definition that describes what there is now: the live one of a VM that runs, else the persistent one.
func (p ParsedDomain) Current() *domain.Definition {
	if p.Live != nil {
		return p.Live
	}

	return p.Persistent
}

// ViewOf returns the host's view, loading it when there is none. Every caller that asks meanwhile waits for the same
// loading, which is bound to the fleet's life and not to the caller who happened to be first.
func (inv *Inventory) ViewOf(ctx context.Context, h *Host) (*View, error) {
	h.mu.Lock()
	if h.view != nil && time.Since(h.view.at) < viewAge {
		defer h.mu.Unlock()

		return h.view, nil
	}

	l := h.loading
	if l == nil {
		l = &loading{done: make(chan struct{})}
		h.loading = l

		inv.background.Go(func() { inv.load(h, l) }) //nolint:contextcheck // it serves all who wait, not this caller
	}
	h.mu.Unlock()

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

	if v.Err != nil {
		inv.log.WarnContext(ctx, "host did not answer", "host", h.Name, "error", v.Err.Error())
	} else {
		inv.log.DebugContext(ctx, "host read", "host", h.Name, "domains", len(v.Domains), "elapsed", v.at.Sub(began))
	}

	h.publish(l, v)
}

// publish hands the view to all who wait for it, and to whoever comes next, unless something was written since its
// loading began.
func (h *Host) publish(l *loading, v *View) {
	h.mu.Lock()
	if h.loading == l {
		h.view, h.loading = v, nil
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
			v.Domains[d.UUID] = NewEntry(d)
		}
	})
	wg.Wait()

	v.Err = infoErr
	if v.Err == nil {
		v.Err = domainsErr
	}

	return v
}

// Forget makes the next reader ask the host again.
func (h *Host) Forget() {
	h.mu.Lock()
	h.view, h.loading = nil, nil
	h.mu.Unlock()
}

// SaidLast tells whether the view is what the host said last, as far as is known.
func (h *Host) SaidLast(v *View) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.view == v
}

// Remember puts what was just read of one domain into the view, so that our own writes don't cost every reader a new
// bulk reading. A nil domain is gone.
func (h *Host) Remember(uuid string, d *libvirt.Domain) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.loading = nil // It may have passed the domain before.

	if h.view == nil || h.view.Err != nil {
		return
	}

	// Readers hold the old map: replace it instead of changing it.
	next := h.view.With(make(map[string]*Entry, len(h.view.Domains)+1))
	maps.Copy(next.Domains, h.view.Domains)

	if d == nil {
		delete(next.Domains, uuid)
	} else {
		next.Domains[uuid] = NewEntry(*d)
	}

	h.view = next
}

// ByHostName compares hosts by their names.
func ByHostName(a, b *Host) int { return strings.Compare(a.Name, b.Name) }

// Generation is the higher one of what runs and of the next start's definition.
func (e *Entry) Generation() uint64 {
	var highest uint64

	p := e.Parse()
	for _, d := range []*domain.Definition{p.Persistent, p.Live} {
		if d != nil {
			highest = max(highest, d.Metadata().Generation)
		}
	}

	return highest
}

// DeviceKeys names the devices of a domain as statistics have them.
func (e *Entry) DeviceKeys() (disks map[string]string, interfaces []string) {
	p := e.Parse()

	return domain.RunningKeys(p.Live, p.Persistent)
}

// HasActive says that the host was seen to run the VM.
func (h *Host) HasActive(uuid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.view == nil {
		return false
	}

	e := h.view.Domains[uuid]

	return e != nil && e.Active()
}
