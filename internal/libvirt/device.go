package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// Detaching a device from a running guest requires the guest's cooperation.
const (
	// detachTimeout is the deadline of a detach whose context has none. libvirt itself waits 5 s.
	detachTimeout = 20 * time.Second
	// detachPoll is how often the domain is read while its event is awaited, in case the event is lost.
	detachPoll = time.Second
)

// Changing a medium requires the guest's cooperation if the guest has locked the drive's tray.
const (
	// trayTimeout is how long the guest is asked to open the tray. A busy guest needs more than libvirt's own 5 s.
	trayTimeout = time.Minute
	// trayPause is the time between two requests.
	trayPause = time.Second
)

// AttachDevice adds a device to a domain (virDomainAttachDeviceFlags).
func (h *Host) AttachDevice(ctx context.Context, uuid, xml string, affect Affect) error {
	s := changeCall("attaching a device to domain " + uuid)
	if err := h.refusePlaceholders(s, xml, ""); err != nil {
		return err
	}
	return h.runOnDomain(ctx, s, uuid, "virDomainAttachDeviceFlags",
		func(d *golibvirt.Domain) error { return d.AttachDeviceFlags(xml, deviceFlags(affect)) })
}

// UpdateDevice changes a device of a domain, such as an interface's link (virDomainUpdateDeviceFlags).
func (h *Host) UpdateDevice(ctx context.Context, uuid, xml string, affect Affect) error {
	s := changeCall("updating a device of domain " + uuid)
	if err := h.refusePlaceholders(s, xml, ""); err != nil {
		return err
	}
	return h.runOnDomain(ctx, s, uuid, "virDomainUpdateDeviceFlags",
		func(d *golibvirt.Domain) error { return d.UpdateDeviceFlags(xml, deviceFlags(affect)) })
}

// ChangeMedium puts the medium of a drive's XML into that drive of a running domain, or removes the medium
// (virDomainUpdateDeviceFlags). libvirt asks the guest to open the tray and waits 5 s. If the guest has locked the
// tray, it is asked again for a minute; then ErrBusy is returned.
func (h *Host) ChangeMedium(ctx context.Context, uuid, xml string) error {
	again := time.NewTimer(trayTimeout)
	defer again.Stop()
	for {
		err := h.UpdateDevice(ctx, uuid, xml, AffectLive)
		var e *Error
		if !errors.As(err, &e) || e.Code != int(golibvirt.ERR_OPERATION_FAILED) {
			return err
		}
		e.Kind = ErrBusy
		select {
		case <-time.After(trayPause):
		case <-again.C:
			return e
		case <-ctx.Done():
			return e
		}
	}
}

// AwaitChanges waits until libvirt has finished the changes of a domain that it has begun, also for callers that are
// gone: it asks for what libvirt answers only then (virDomainGetDiskErrors). Until then, the domain's XML is what it
// will be if they succeed: a drive whose medium the guest hasn't released has the next medium there, and later the old
// one again.
func (h *Host) AwaitChanges(ctx context.Context, uuid string) error {
	if _, err := h.DiskErrors(ctx, uuid); !errors.Is(err, ErrOperationInvalid) {
		return err
	}
	return nil // It is off.
}

const (
	// hangLimit is how long the process of a domain may take to answer one thing that libvirt asks it. If it takes longer,
	// it hangs.
	hangLimit = 3 * time.Second
	// occupiedLimit is how long SettledDomain waits for a domain whose process is always asked something.
	occupiedLimit = 10 * time.Second
	occupiedPoll  = 50 * time.Millisecond
)

// SettledDomain reads a domain while libvirt changes nothing of it. It waits for a change that waits for the guest: see
// AwaitChanges. A domain whose process hangs is returned as libvirt shows it.
func (h *Host) SettledDomain(ctx context.Context, uuid string) (*Domain, error) {
	enough := time.Now().Add(occupiedLimit)
	for {
		var before, after control
		read, err := onDomain(ctx, h, readCall("reading domain "+uuid), uuid,
			func(c *conn, d *golibvirt.Domain) (read *Domain, err error) {
				before = c.control(d)
				read, err = c.readDomain(d)
				after = c.control(d)
				return read, err
			})
		if before == hangs && after != hangs {
			before = occupied // It has answered meanwhile.
		}
		switch now := max(before, after); {
		case err != nil:
			return nil, err
		case now == awaitsGuest:
			if err = h.AwaitChanges(ctx, uuid); err == nil {
				enough = time.Now().Add(occupiedLimit) // It has answered.
				continue
			}
			// If its process has just ended, that was no answer, and libvirt says a moment later that it is off.
			if time.Now().After(enough) {
				return nil, err
			}
		case now != occupied, time.Now().After(enough):
			return read, nil
		}
		select {
		case <-time.After(occupiedPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// control is what libvirt does with a domain. What is later in the list decides, if two looks differ.
type control int

const (
	idle        control = iota
	occupied            // it asks its process something
	hangs               // it has waited too long for an answer of its process
	awaitsGuest         // it changes the domain and waits for its guest
)

// control returns what libvirt does with a domain (virDomainGetControlInfo): nothing if the domain is off, and for a
// driver that doesn't say. A job such as a migration doesn't count: no medium is changed meanwhile.
func (c *conn) control(d *golibvirt.Domain) control {
	c.countCall("virDomainGetControlInfo")
	info, err := d.GetControlInfo(0)
	switch {
	case err != nil:
		return idle
	case info.State == golibvirt.DOMAIN_CONTROL_OCCUPIED && time.Duration(info.StateTime)*time.Millisecond > hangLimit:
		return hangs
	case info.State == golibvirt.DOMAIN_CONTROL_OCCUPIED:
		return occupied
	case info.State == golibvirt.DOMAIN_CONTROL_ERROR &&
		info.Details != int(golibvirt.DOMAIN_CONTROL_ERROR_REASON_MONITOR):
		return awaitsGuest // This is what libvirt calls it if it holds the domain without asking its process.
	default:
		return idle
	}
}

// DetachDevice removes a device from a domain (virDomainDetachDeviceFlags), from the running domain first: it returns
// when the guest has released the device. It returns ErrNotReleased if the guest was asked and refuses, or doesn't
// release the device before the deadline, 20 seconds by default. It is no error if the device doesn't exist.
func (h *Host) DetachDevice(ctx context.Context, uuid, xml string, affect Affect) error {
	ctx, cancel := h.withDeadline(ctx, callSpec{timeout: detachTimeout, patient: true})
	defer cancel()
	if affect&AffectLive != 0 {
		if err := h.detachLive(ctx, uuid, xml); err != nil {
			return err
		}
	}
	if affect&AffectConfig == 0 {
		return nil
	}
	return h.detach(ctx, uuid, xml, AffectConfig)
}

func (h *Host) detach(ctx context.Context, uuid, xml string, affect Affect) error {
	return h.runOnDomain(ctx, changeCall("detaching a device from domain "+uuid), uuid, "virDomainDetachDeviceFlags",
		func(d *golibvirt.Domain) error {
			err := d.DetachDeviceFlags(xml, deviceFlags(affect))
			if errors.Is(err, golibvirt.ERR_DEVICE_MISSING) {
				return nil
			}
			return err
		})
}

// detachLive asks the guest to release the device and waits until it has.
func (h *Host) detachLive(ctx context.Context, uuid, fragment string) error {
	var wanted device
	if err := xml.Unmarshal([]byte(fragment), &wanted); err != nil {
		err = fmt.Errorf("%w device: %w", ErrInvalid, err)
		return h.wrap(changeCall("detaching a device from domain "+uuid), err, false)
	}
	alias, present, err := h.liveAlias(ctx, uuid, wanted)
	if err != nil {
		return err
	}
	if !present {
		// There is nothing to wait for; libvirt may still know a device that the fragment identifies in another way.
		return h.detach(ctx, uuid, fragment, AffectLive)
	}
	// Subscribe first, or the event may come before there is a subscriber.
	listen, stop := context.WithCancel(ctx)
	defer stop()
	events, err := h.Subscribe(listen, uuid)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		return err
	}
	if err := h.detach(ctx, uuid, fragment, AffectLive); err != nil {
		return err
	}
	return h.awaitRemoval(ctx, uuid, alias, wanted, events)
}

// awaitRemoval waits for the guest's answer, and reads the domain regularly in case the event is lost.
func (h *Host) awaitRemoval(ctx context.Context, uuid, alias string, wanted device, events <-chan Event) error {
	s := changeCall("detaching device " + alias + " from domain " + uuid)
	s.late = ErrNotReleased
	poll := time.NewTicker(detachPoll)
	defer poll.Stop()
	start := time.Now()
	for {
		_, present, err := h.liveAlias(ctx, uuid, wanted)
		switch {
		case err == nil && !present:
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		}
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
			}
			if e.Kind == EventDeviceRemovalFailed && e.Device == alias {
				err := fmt.Errorf("%w: the guest refused to release the device", ErrBusy)
				return &Error{Host: h.cfg.Name, Operation: s.operation, Kind: ErrNotReleased, Err: err}
			}
		case <-poll.C:
		case <-ctx.Done():
			err := fmt.Errorf("the guest hasn't released the device for %v: %w",
				time.Since(start).Round(time.Millisecond), contextCause(ctx))
			return h.wrap(s, err, false)
		}
	}
}

// device is what identifies a device within a domain.
type device struct {
	XMLName xml.Name
	Alias   struct {
		Name string `xml:"name,attr"`
	} `xml:"alias"`
	Target struct {
		Dev string `xml:"dev,attr"`
	} `xml:"target"`
	MAC struct {
		Address string `xml:"address,attr"`
	} `xml:"mac"`
}

// matches reports whether libvirt would identify d by wanted.
func (d device) matches(wanted device) bool {
	switch {
	case d.XMLName.Local != wanted.XMLName.Local:
		return false
	case wanted.Alias.Name != "":
		return d.Alias.Name == wanted.Alias.Name
	case wanted.XMLName.Local == "disk":
		return d.Target.Dev == wanted.Target.Dev
	case wanted.MAC.Address != "":
		return d.MAC.Address == wanted.MAC.Address
	}
	return false
}

// liveAlias looks for a device in the running domain. A device that the fragment doesn't identify counts as absent, as
// does every device of a domain that isn't running.
func (h *Host) liveAlias(ctx context.Context, uuid string, wanted device) (alias string, present bool, err error) {
	s := readCall("reading the devices of domain " + uuid)
	document, err := onDomain(ctx, h, s, uuid,
		func(c *conn, d *golibvirt.Domain) (string, error) { return c.domainXML(d, 0) })
	if err != nil {
		return "", false, err
	}
	if !isLive(document) {
		return "", false, nil
	}
	var domain struct {
		Devices struct {
			All []device `xml:",any"`
		} `xml:"devices"`
	}
	if err := xml.Unmarshal([]byte(document), &domain); err != nil {
		return "", false, h.wrap(s, fmt.Errorf("%w: %w", ErrInternal, err), false)
	}
	for _, d := range domain.Devices.All {
		if d.matches(wanted) {
			return d.Alias.Name, true, nil
		}
	}
	return "", false, nil
}

func deviceFlags(a Affect) golibvirt.DomainDeviceModifyFlags {
	return golibvirt.DomainDeviceModifyFlags(a.impactFlags())
}
