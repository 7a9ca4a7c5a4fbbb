package inventory

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// viewAge is how long the result of a bulk reading is used. A plan of a thousand VMs takes seconds; a minute covers
	// the plan and its checks. Operations that change a VM never rely on it.
	viewAge = time.Minute
	// viewTimeout limits one bulk reading of one host, including the first connection, for which a user may have to touch
	// a key. Each of its questions has a shorter limit of its own.
	viewTimeout = 3 * time.Minute
)

// Host is one configured host and what it last reported.
type Host struct {
	Name   string
	Config HostConfig
	Conn   *libvirt.Host

	files    seenFiles
	lookups  timeouts // when libvirt is asked for files by their paths
	listings timeouts // when directories are listed
	networks asked[networkList]
	devices  asked[deviceList] // by kind
	bridges  asked[existence]  // by name
	filters  asked[existence]  // by name
	ports    asked[portList]   // by network
	postCopy asked[postCopySetting]
	mounts   asked[mountTables]
	fenced   asked[fencedStates]
	// mountsShown says what the last mounts had.
	mountsShown shownMounts

	ownNetworks asked[ownNetworks]

	looks    looks
	readings looks

	mu   sync.Mutex
	view *View
	// known are the domains of the last view, by UUID, so that an unchanged domain isn't parsed again.
	known map[string]*Entry
	// loading is the reading that a new reader may wait for. Forget and ForgetRecord set it to nil: the result of a
	// reading that began before is too old for a new reader.
	loading *loading
}

// View is the result of one bulk reading of a host.
type View struct {
	Info    *libvirt.HostInfo
	Domains map[string]*Entry // by UUID
	Err     error             // nil if the host answered
	index   *viewIndex
	// The rest is shared by the views of one reading.
	record      *asked[*hostrecord.Record]
	volumes     *asked[poolListing] // by pool
	volumesByID *asked[seenVolume]
	controllers *seenControllers
	allPools    *asked[[]libvirt.StoragePool]
	pools       *asked[string]
	creating    *asked[[]string]
	arriving    *asked[map[string]ArrivingFiles]
	marks       *asked[map[string]FileMark]
	volumeNames *asked[[]string]
	userSecrets *asked[bool] // by UUID
	at          time.Time
}

// NewView returns a view with what a host reported about itself and its domains.
func NewView(info *libvirt.HostInfo, domains map[string]*Entry) *View {
	return &View{
		Info: info, Domains: domains, index: &viewIndex{}, record: &asked[*hostrecord.Record]{},
		volumes: &asked[poolListing]{}, volumesByID: &asked[seenVolume]{},
		controllers: &seenControllers{}, allPools: &asked[[]libvirt.StoragePool]{}, pools: &asked[string]{},
		creating: &asked[[]string]{}, arriving: &asked[map[string]ArrivingFiles]{},
		marks: &asked[map[string]FileMark]{}, volumeNames: &asked[[]string]{},
		userSecrets: &asked[bool]{},
	}
}

// With returns a view of the same reading with other domains.
func (v *View) With(domains map[string]*Entry) *View {
	other := *v
	other.Domains, other.index = domains, &viewIndex{}

	return &other
}

// loading is a bulk reading that is running; done is closed when its view is available.
type loading struct {
	done chan struct{}
	view *View
	// published says that the view became the host's view.
	published bool
	// written are the domains that were written since the reading began, by UUID: the reading may have passed them before.
	// Nil is a domain that is gone.
	written map[string]*libvirt.Domain
}

// Entry is one domain of a view. Its XML is parsed when it is first needed: a plan for five VMs shouldn't parse the
// other thousand.
type Entry struct {
	libvirt.Domain
	// jobOver says that it is paused for a migration, and that its host runs no job on it that would end the pause.
	jobOver bool

	once   sync.Once
	parsed ParsedDomain

	metadataOnce sync.Once
	metadata     domain.Metadata

	overheadOnce sync.Once
	overhead     uint64

	memoryOnce             sync.Once
	committed, onceStarted uint64 // how much of the host's memory the guest may use now, and once it is started

	useOnce sync.Once
	use     domain.HostUse

	diskUsesOnce sync.Once
	diskUses     []domain.DiskUse

	nvramOnce  sync.Once
	nvramFiles []string
}

// ParsedDomain is the parsed XML of a domain; a part is nil if there is no such definition. All readers share it: don't
// change it.
type ParsedDomain struct {
	Persistent, Live         *domain.Definition
	persistentSpec, LiveSpec *domain.Spec
	Err                      error
}

// NewEntry returns the entry of a domain that its host just reported.
func NewEntry(d libvirt.Domain) *Entry { return &Entry{Domain: d} }

// Parse returns the parsed XML. It parses once.
func (e *Entry) Parse() ParsedDomain {
	e.once.Do(func() {
		var persistentErr, liveErr error

		e.parsed.Persistent, e.parsed.persistentSpec, persistentErr = parseXML(e.PersistentXML)
		e.parsed.Live, e.parsed.LiveSpec, liveErr = parseXML(e.LiveXML)
		e.parsed.Err = errors.Join(persistentErr, liveErr)

		if p := &e.parsed; p.Persistent != nil && p.Live != nil && p.Live.AdoptNames(p.Persistent) {
			p.LiveSpec = new(p.Live.Spec())
		}
	})

	return e.parsed
}

// OwnMetadata returns the metadata of the definition, which must exist. All readers share it: don't change it.
func (e *Entry) OwnMetadata() domain.Metadata {
	e.metadataOnce.Do(func() { e.metadata = e.Parse().Definition().Metadata() })

	return e.metadata
}

// Overhead returns how many bytes QEMU needs in addition to the guest's memory.
func (e *Entry) Overhead() uint64 {
	e.overheadOnce.Do(func() {
		if current := e.Parse().Current(); current != nil {
			e.overhead = current.Overhead()
		}
	})

	return e.overhead
}

// HostUse returns what the domain uses of its host: as it runs, or as it will run if the host starts it. A domain that
// is off and isn't started by its host uses nothing.
func (e *Entry) HostUse() domain.HostUse {
	e.useOnce.Do(func() {
		switch p := e.Parse(); {
		case p.Live != nil:
			e.use = p.Live.HostUse(*p.LiveSpec)
		case p.Persistent != nil && (e.Autostart || e.OwnMetadata().Creating != nil):
			e.use = p.Persistent.HostUse(*p.persistentSpec)
		}

		e.use = e.use.WithMetadata(e.OwnMetadata())
	})

	return e.use
}

// DefinedUse returns what the domain would use of its host if it were started with its definition.
func (e *Entry) DefinedUse() domain.HostUse {
	if p := e.Parse(); p.Persistent != nil {
		return p.Persistent.HostUse(*p.persistentSpec)
	}

	return domain.HostUse{}
}

// DiskUses returns the disks that the domain writes to: those of the running domain, and those of a domain that its
// host starts. All readers share them: don't change them.
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

// NextDiskUses returns the disks that a running domain doesn't write to yet, but will: those of its definition, which
// it has from its next start at the latest. A run writes a disk into the definition before it plugs it in.
func (e *Entry) NextDiskUses() []domain.DiskUse {
	if p := e.Parse(); p.Live != nil && p.Persistent != nil {
		return p.Persistent.DiskUses()
	}

	return nil
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

// Definition returns the definition that describes the VM: the persistent one, or the live one of a transient domain.
// It returns nil if neither could be read.
func (p ParsedDomain) Definition() *domain.Definition {
	if p.Persistent != nil {
		return p.Persistent
	}

	return p.Live
}

// Current returns the definition that describes the present state: the live one of a running VM, else the persistent
// one.
func (p ParsedDomain) Current() *domain.Definition {
	if p.Live != nil {
		return p.Live
	}

	return p.Persistent
}

// ByHostName compares hosts by name.
func ByHostName(a, b *Host) int { return strings.Compare(a.Name, b.Name) }

// Generation returns the higher generation of the live and the persistent definition.
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

// DeviceKeys returns the keys of a domain's disks by the names that statistics use, and of its interfaces.
func (e *Entry) DeviceKeys() (disks map[string]string, interfaces []string) {
	p := e.Parse()

	return domain.RunningKeys(p.Live, p.Persistent)
}

// HasActive reports whether the host was running the VM when it was last read.
func (h *Host) HasActive(uuid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.view == nil {
		return false
	}

	e := h.view.Domains[uuid]

	return e != nil && e.Active()
}
