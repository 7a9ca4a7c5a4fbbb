package inventory

import (
	"errors"
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
	// known are the domains of the last view, by UUID, so that one which hasn't changed isn't parsed again.
	known map[string]*Entry
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
	// published says that it became the host's view.
	published bool
	// written are the domains that were written since it began, by UUID. It may have passed them before. Nil: it is gone.
	written map[string]*libvirt.Domain
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

	memoryOnce             sync.Once
	committed, onceStarted uint64 // what the guest may use of the host's memory now, and once it is started

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
