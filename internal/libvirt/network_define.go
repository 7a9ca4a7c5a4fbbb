package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"

	golibvirt "libvirt.org/go/libvirt"
)

// NetworkDefinition is a network with everything that its host reports about it.
type NetworkDefinition struct {
	Name, UUID        string
	Active, Autostart bool
	Persistent        bool
	PersistentXML     string // applies from the next start of the network; for a transient network, its only definition
	LiveXML           string // what is active now; "" while the network is inactive
}

// Network reads a network by its name (virNetworkLookupByName, virNetworkGetXMLDesc, ...). It returns ErrNotFound if
// the host answered and has no network of that name.
func (h *Host) Network(ctx context.Context, name string) (*NetworkDefinition, error) {
	return onNetwork(ctx, h, readCall("reading network "+name), name,
		func(c *conn, n *golibvirt.Network) (*NetworkDefinition, error) { return c.networkDefinition(name, n) })
}

// networkDefinition reads a network in one round trip. It asks for what only an active or a persistent network has
// without waiting for whether this one is.
func (c *conn) networkDefinition(name string, n *golibvirt.Network) (*NetworkDefinition, error) {
	d := &NetworkDefinition{Name: name}
	var autostart bool
	var live string
	var autostartErr, xmlErr, liveErr error
	calls := c.newPipeline()
	for _, read := range []struct {
		procedure string
		do        func() error
	}{
		{"virNetworkGetUUIDString", func() (err error) { d.UUID, err = n.GetUUIDString(); return err }},
		{"virNetworkIsActive", func() (err error) { d.Active, err = n.IsActive(); return err }},
		{"virNetworkIsPersistent", func() (err error) { d.Persistent, err = n.IsPersistent(); return err }},
		{"virNetworkGetXMLDesc", func() error {
			d.PersistentXML, xmlErr = n.GetXMLDesc(golibvirt.NETWORK_XML_INACTIVE)
			return nil
		}},
		{"virNetworkGetXMLDesc", func() error { live, liveErr = n.GetXMLDesc(0); return nil }},
		{"virNetworkGetAutostart", func() error { autostart, autostartErr = n.GetAutostart(); return nil }},
	} {
		calls.Go(func() error {
			c.countCall(read.procedure)
			return read.do()
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	if errors.Is(xmlErr, golibvirt.ERR_INVALID_ARG) {
		// libvirt's test driver has only one definition.
		d.PersistentXML, xmlErr = live, liveErr
	}
	switch {
	case xmlErr != nil:
		return nil, xmlErr
	case d.Persistent && autostartErr != nil:
		return nil, autostartErr
	case d.Active && liveErr != nil:
		return nil, liveErr
	}
	d.Autostart = d.Persistent && autostart
	if d.Active {
		d.LiveXML = live
	}
	return d, nil
}

// DefineNetwork defines a network, or redefines the network with the same UUID and name; an active network stays as it
// is until its next start. libvirt validates the document against its schema (virNetworkDefineXMLFlags). It returns
// ErrExists if another network has the name.
func (h *Host) DefineNetwork(ctx context.Context, document string) error {
	defer h.networkChanges.Add(1)
	_, err := call(ctx, h, defineCall("defining network"), func(c *conn) (struct{}, error) {
		c.countCall("virNetworkDefineXMLFlags")
		n, err := c.c.NetworkDefineXMLFlags(document, golibvirt.NETWORK_DEFINE_VALIDATE)
		if errors.Is(err, golibvirt.ERR_NO_SUPPORT) || errors.Is(err, golibvirt.ERR_INVALID_ARG) {
			// Before libvirt 7.8 there was no validation.
			c.countCall("virNetworkDefineXML")
			n, err = c.c.NetworkDefineXML(document)
		}
		if err != nil {
			return struct{}{}, c.networkNameTaken(document, err)
		}
		return struct{}{}, n.Free()
	})
	return err
}

// networkNameTaken finds out whether a network of the same name caused a refusal: libvirt has no error number for that.
func (c *conn) networkNameTaken(document string, refusal error) error {
	if !errors.Is(refusal, golibvirt.ERR_OPERATION_FAILED) {
		return refusal
	}
	var network struct {
		Name string `xml:"name"`
		UUID string `xml:"uuid"`
	}
	if err := xml.Unmarshal([]byte(document), &network); err != nil {
		return refusal
	}
	n, err := c.lookupNetwork(network.Name)
	if err != nil {
		return refusal
	}
	defer func() { _ = n.Free() }()
	if uuid, err := n.GetUUIDString(); err == nil && uuid != network.UUID {
		return fmt.Errorf("%w: network %s has the UUID %s", ErrExists, network.Name, uuid)
	}
	return refusal
}

// StartNetwork starts a network (virNetworkCreate). It returns ErrOperationInvalid if the network is active.
func (h *Host) StartNetwork(ctx context.Context, name string) error {
	return h.changeNetwork(ctx, changeCall("starting network "+name), name, "virNetworkCreate",
		(*golibvirt.Network).Create)
}

// StopNetwork stops a network (virNetworkDestroy). Connected guests are cut off, and a transient network no longer
// exists.
func (h *Host) StopNetwork(ctx context.Context, name string) error {
	return h.changeNetwork(ctx, changeCall("stopping network "+name), name, "virNetworkDestroy",
		(*golibvirt.Network).Destroy)
}

// UndefineNetwork removes the definition of a network (virNetworkUndefine).
func (h *Host) UndefineNetwork(ctx context.Context, name string) error {
	return h.changeNetwork(ctx, defineCall("removing network "+name), name, "virNetworkUndefine",
		(*golibvirt.Network).Undefine)
}

// SetNetworkAutostart sets whether the host starts a network when it boots (virNetworkSetAutostart).
func (h *Host) SetNetworkAutostart(ctx context.Context, name string, autostart bool) error {
	return h.changeNetwork(ctx, defineCall("setting autostart of network "+name), name, "virNetworkSetAutostart",
		func(n *golibvirt.Network) error { return n.SetAutostart(autostart) })
}

// NetworkCommand says what an update does with its element.
type NetworkCommand golibvirt.NetworkUpdateCommand

// The commands.
const (
	NetworkAdd    = NetworkCommand(golibvirt.NETWORK_UPDATE_COMMAND_ADD_LAST)
	NetworkModify = NetworkCommand(golibvirt.NETWORK_UPDATE_COMMAND_MODIFY)
	NetworkDelete = NetworkCommand(golibvirt.NETWORK_UPDATE_COMMAND_DELETE)
)

// NetworkSection is a part of a network that can be changed while the network is active.
type NetworkSection golibvirt.NetworkUpdateSection

// The sections.
const (
	NetworkDHCPHost         = NetworkSection(golibvirt.NETWORK_SECTION_IP_DHCP_HOST)
	NetworkDHCPRange        = NetworkSection(golibvirt.NETWORK_SECTION_IP_DHCP_RANGE)
	NetworkForwardInterface = NetworkSection(golibvirt.NETWORK_SECTION_FORWARD_INTERFACE)
	NetworkPortGroup        = NetworkSection(golibvirt.NETWORK_SECTION_PORTGROUP)
	NetworkDNSHost          = NetworkSection(golibvirt.NETWORK_SECTION_DNS_HOST)
	NetworkDNSTXT           = NetworkSection(golibvirt.NETWORK_SECTION_DNS_TXT)
	NetworkDNSSRV           = NetworkSection(golibvirt.NETWORK_SECTION_DNS_SRV)
)

// NetworkUpdate changes one element of a network.
type NetworkUpdate struct {
	Command NetworkCommand
	Section NetworkSection
	// Parent is the index, from 0, of the <ip> element that contains the element, for NetworkDHCPHost and
	// NetworkDHCPRange; -1 for the other sections.
	Parent int
	// XML is the element.
	XML string
}

// UpdateNetwork changes one element of the active network, of the persistent definition, or of both: then either both
// are changed or neither (virNetworkUpdate).
func (h *Host) UpdateNetwork(ctx context.Context, name string, u NetworkUpdate, live, config bool) error {
	var flags golibvirt.NetworkUpdateFlags
	if live {
		flags |= golibvirt.NETWORK_UPDATE_AFFECT_LIVE
	}
	if config {
		flags |= golibvirt.NETWORK_UPDATE_AFFECT_CONFIG
	}
	return h.changeNetwork(ctx, changeCall("updating network "+name), name, "virNetworkUpdate",
		func(n *golibvirt.Network) error {
			return n.Update(golibvirt.NetworkUpdateCommand(u.Command), golibvirt.NetworkUpdateSection(u.Section), u.Parent,
				u.XML, flags)
		})
}

// changeNetwork runs a procedure without a result on a network.
func (h *Host) changeNetwork(
	ctx context.Context, s callSpec, name, procedure string, f func(*golibvirt.Network) error,
) error {
	defer h.networkChanges.Add(1)
	_, err := onNetwork(ctx, h, s, name, func(c *conn, n *golibvirt.Network) (struct{}, error) {
		c.countCall(procedure)
		return struct{}{}, f(n)
	})
	return err
}

// onNetwork runs f on a network. It returns ErrNotFound if the host has no network of that name.
func onNetwork[T any](
	ctx context.Context, h *Host, s callSpec, name string, f func(*conn, *golibvirt.Network) (T, error),
) (T, error) {
	return call(ctx, h, s, func(c *conn) (value T, err error) {
		n, err := c.lookupNetwork(name)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, n.Free()) }()
		return f(c, n)
	})
}

func (c *conn) lookupNetwork(name string) (*golibvirt.Network, error) {
	c.countCall("virNetworkLookupByName")
	return c.c.LookupNetworkByName(name)
}
