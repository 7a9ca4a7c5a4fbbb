package libvirt

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// observations bounds the attempts to read a domain consistently while it starts or stops.
const observations = 4

// Domain is a domain as it was read once.
type Domain struct {
	UUID string
	Name string
	// State and Reason are those of virDomainGetState.
	State  DomainState
	Reason string
	// Persistent says that the domain has a definition that stays when it stops.
	Persistent bool
	// Autostart says that the host starts the domain when it boots.
	Autostart bool
	// ManagedSave says that the next start resumes a saved memory image.
	ManagedSave bool
	// PersistentXML is the definition for the next start, without secrets such as a VNC password: to edit and define a
	// domain again, read its CompleteXML. It is "" for a transient domain.
	PersistentXML string
	// LiveXML is the definition of the running domain, without secrets; "" for an inactive domain.
	LiveXML string
}

// Active reports whether the domain has a hypervisor process: running, paused, suspended, shutting down, or kept after
// its guest has panicked.
func (d *Domain) Active() bool { return d.State.Active() || d.State == Crashed && d.LiveXML != "" }

// InMigration reports whether the domain is paused because of a migration: it is the target's copy while memory
// arrives, or the source's copy during the handover or after post-copy broke.
func (d *Domain) InMigration() bool {
	if d.State != Paused {
		return false
	}
	switch d.Reason {
	case ReasonMigration, ReasonStartingUp, ReasonPostcopy, ReasonPostcopyFailed:
		return true
	default:
		return false
	}
}

// SentAllMemory reports whether the domain's process has ended because a migration to another host was complete: the
// guest's memory is there as a whole, whatever that host's libvirt says. libvirt forgets this when its daemon is
// restarted, so false says nothing.
func (d *Domain) SentAllMemory() bool { return d.State == Shutoff && d.Reason == ReasonMigrated }

// ForgotWhyOff reports whether libvirt doesn't know why the domain is off: its daemon was restarted since.
func (d *Domain) ForgotWhyOff() bool { return d.State == Shutoff && d.Reason == unknownName }

// Domains reads all domains of the host. It needs six calls and one or two per domain, which are pipelined: at any
// latency they take little more than two round trips and the daemon's own work. It leaves out domains that vanish
// meanwhile.
//
// It uses virConnectListAllDomains, virConnectGetAllDomainStats and virDomainGetXMLDesc, and virDomainGetState if the
// states can't be read at once.
func (h *Host) Domains(ctx context.Context) ([]Domain, error) {
	domains, _, err := h.DomainsAndCopies(ctx)
	return domains, err
}

// Domain reads one domain. It returns ErrNotFound if the host answered and has no domain with this UUID.
func (h *Host) Domain(ctx context.Context, uuid string) (*Domain, error) {
	return onDomain(ctx, h, readCall("reading domain "+uuid), uuid, func(c *conn, d *golibvirt.Domain) (*Domain, error) {
		read, err := c.readDomain(d)
		if err == nil && isCopier(read.Name, read.UUID) {
			return nil, errCopier
		}
		return read, err
	})
}

// DomainByName reads the domain with this name. It returns ErrNotFound if the host answered and has no such domain.
func (h *Host) DomainByName(ctx context.Context, name string) (*Domain, error) {
	return call(ctx, h, readCall("reading domain "+name), func(c *conn) (*Domain, error) {
		c.countCall("virDomainLookupByName")
		d, err := c.c.LookupDomainByName(name)
		if err != nil {
			return nil, err
		}
		uuid, err := d.GetUUIDString()
		if err == nil && isCopier(name, uuid) {
			err = errCopier
		}
		if err != nil {
			return nil, errors.Join(err, d.Free())
		}
		return c.readDomain(c.keepHandle(uuid, d))
	})
}

// listedDomain is a domain during a bulk read.
type listedDomain struct {
	handle   *golibvirt.Domain
	domain   Domain
	active   bool // when the domains were listed
	hasState bool // its state came with the list
	vanished atomic.Bool
}

// readDomains reads all domains. It returns only the first error, after the calls that are in progress have ended.
func (c *conn) readDomains() ([]Domain, error) {
	seen, err := c.listDomains()
	if err != nil {
		return nil, err
	}
	calls := c.newPipeline()
	var failed atomic.Bool
	read := func(s *listedDomain, f func(*listedDomain) error) {
		if failed.Load() {
			return
		}
		calls.Go(func() error {
			err := f(s)
			if codeOf(err) == golibvirt.ERR_NO_DOMAIN {
				s.vanished.Store(true)
				return nil
			}
			failed.CompareAndSwap(false, err != nil)
			return err
		})
	}
	for _, s := range seen {
		if !s.hasState {
			read(s, func(s *listedDomain) (err error) {
				s.domain.State, s.domain.Reason, err = c.domainState(s.handle)
				return err
			})
		}
		if s.active {
			read(s, func(s *listedDomain) (err error) {
				s.domain.LiveXML, err = c.domainXML(s.handle, 0)
				return err
			})
		}
		if s.domain.Persistent {
			read(s, func(s *listedDomain) (err error) {
				s.domain.PersistentXML, err = c.domainXML(s.handle, golibvirt.DOMAIN_XML_INACTIVE)
				return err
			})
		}
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	return c.settleSightings(seen)
}

// settleSightings reads the domains again that started, stopped or lost their definition between the calls.
func (c *conn) settleSightings(seen []*listedDomain) ([]Domain, error) {
	domains := make([]Domain, 0, len(seen))
	for _, s := range seen {
		if s.vanished.Load() {
			continue
		}
		if s.active != s.domain.Active() || s.active != isLive(s.domain.LiveXML) {
			d, err := c.readDomain(s.handle)
			if codeOf(err) == golibvirt.ERR_NO_DOMAIN {
				continue
			}
			if err != nil {
				return nil, err
			}
			s.domain = *d
		}
		domains = append(domains, s.domain)
	}
	return domains, nil
}

// listDomains lists the domains, with the properties that libvirt can filter by.
func (c *conn) listDomains() ([]*listedDomain, error) {
	filters := []golibvirt.ConnectListAllDomainsFlags{
		golibvirt.CONNECT_LIST_DOMAINS_ACTIVE,
		golibvirt.CONNECT_LIST_DOMAINS_TRANSIENT,
		golibvirt.CONNECT_LIST_DOMAINS_AUTOSTART,
		golibvirt.CONNECT_LIST_DOMAINS_MANAGEDSAVE,
	}
	sets := make([]map[string]bool, len(filters))
	var seen []*listedDomain
	var states map[string]DomainStats
	var calls errgroup.Group
	for i, filter := range filters {
		calls.Go(func() (err error) {
			sets[i], err = c.domainUUIDs(filter)
			return err
		})
	}
	calls.Go(func() (err error) {
		seen, err = c.handlesOfAll()
		return err
	})
	calls.Go(func() (err error) {
		states, err = c.statesOfAll()
		return err
	})
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	for _, s := range seen {
		uuid := s.domain.UUID
		var known DomainStats
		known, s.hasState = states[uuid]
		s.domain.State, s.domain.Reason = known.State, known.Reason
		s.active = sets[0][uuid]
		s.domain.Persistent, s.domain.Autostart, s.domain.ManagedSave = !sets[1][uuid], sets[2][uuid], sets[3][uuid]
	}
	return seen, nil
}

// handlesOfAll lists all domains and keeps their handles, so that later reads need no look-ups.
func (c *conn) handlesOfAll() ([]*listedDomain, error) {
	c.countCall("virConnectListAllDomains")
	list, err := c.c.ListAllDomains(0)
	if err != nil {
		return nil, err
	}
	seen := make([]*listedDomain, 0, len(list))
	var failures error
	for i := range list {
		d := &list[i]
		uuid, uuidErr := d.GetUUIDString()
		name, nameErr := d.GetName()
		if err := errors.Join(uuidErr, nameErr); err != nil {
			failures = errors.Join(failures, err, d.Free())
			continue
		}
		seen = append(seen, &listedDomain{handle: c.keepHandle(uuid, d), domain: Domain{UUID: uuid, Name: name}})
	}
	return seen, failures
}

// statesOfAll returns the states of all domains by UUID; none if they can't be read at once.
func (c *conn) statesOfAll() (map[string]DomainStats, error) {
	all, err := c.readStats(StatsState, nil)
	if err != nil && !errors.Is(err, ErrUnsupported) && absentIfUnsupported(err) != nil {
		return nil, err
	}
	states := make(map[string]DomainStats, len(all))
	for _, d := range all {
		states[d.UUID] = d
	}
	return states, nil
}

// domainUUIDs returns the UUIDs of the domains that pass a filter.
func (c *conn) domainUUIDs(filter golibvirt.ConnectListAllDomainsFlags) (map[string]bool, error) {
	c.countCall("virConnectListAllDomains")
	list, err := c.c.ListAllDomains(filter)
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(list))
	var failures error
	for i := range list {
		uuid, err := list[i].GetUUIDString()
		failures = errors.Join(failures, err, list[i].Free())
		set[uuid] = true
	}
	return set, failures
}

// readDomain reads everything about one domain in one round trip, and again if the domain changed between the calls.
func (c *conn) readDomain(d *golibvirt.Domain) (*Domain, error) {
	var o *Domain
	for range observations {
		var live string
		var err error
		if o, live, err = c.observeOnce(d); err != nil {
			return nil, err
		}
		active := isLive(live)
		if active {
			o.LiveXML = live
		}
		if o.Active() == active {
			return o, nil
		}
	}
	return nil, golibvirt.Error{
		Code: golibvirt.ERR_RESOURCE_BUSY, Message: "the domain starts and stops faster than it can be read",
	}
}

// observeOnce also returns the XML without the INACTIVE flag. For an inactive domain that is the persistent XML.
func (c *conn) observeOnce(d *golibvirt.Domain) (o *Domain, live string, err error) {
	o = &Domain{}
	if o.UUID, err = d.GetUUIDString(); err != nil {
		return nil, "", err
	}
	var persistent string
	var calls errgroup.Group
	calls.Go(func() (err error) {
		o.State, o.Reason, err = c.domainState(d)
		return err
	})
	calls.Go(func() (err error) {
		live, err = c.domainXML(d, 0)
		return err
	})
	calls.Go(func() (err error) {
		persistent, err = c.domainXML(d, golibvirt.DOMAIN_XML_INACTIVE)
		return err
	})
	calls.Go(func() (err error) {
		c.countCall("virDomainIsPersistent")
		o.Persistent, err = d.IsPersistent()
		return err
	})
	calls.Go(func() (err error) {
		c.countCall("virDomainGetAutostart")
		o.Autostart, err = d.GetAutostart()
		return absentIfUnsupported(err)
	})
	calls.Go(func() (err error) {
		c.countCall("virDomainHasManagedSaveImage")
		o.ManagedSave, err = d.HasManagedSaveImage(0)
		return absentIfUnsupported(err)
	})
	if err := calls.Wait(); err != nil {
		return nil, "", err
	}
	if o.Persistent {
		o.PersistentXML = persistent
	}
	o.Name, err = domainName(live)
	return o, live, err
}

func (c *conn) domainXML(d *golibvirt.Domain, flags golibvirt.DomainXMLFlags) (string, error) {
	c.countCall("virDomainGetXMLDesc")
	return d.GetXMLDesc(flags)
}

func (c *conn) domainState(d *golibvirt.Domain) (DomainState, string, error) {
	c.countCall("virDomainGetState")
	state, reason, err := d.GetState()
	return DomainState(state), reasonName(DomainState(state), reason), err
}

// absentIfUnsupported treats a feature that a driver doesn't support as a feature that isn't used.
func absentIfUnsupported(err error) error {
	if codeOf(err) == golibvirt.ERR_NO_SUPPORT {
		return nil
	}
	return err
}
