package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// Network is a libvirt network.
type Network struct {
	Name, UUID  string
	Active      bool
	Bridge      string // the host's bridge; "" if the network has none
	ForwardMode string // "nat", "route", "bridge", ...; "" for an isolated network
	// VirtualPort is the type of the virtual ports that its interfaces get ("openvswitch"); "" if they get none.
	VirtualPort string
	// Devices are the addresses of the PCI devices that it gives to interfaces ("0000:01:10.0"). libvirt lists those of a
	// physical function once the network is active.
	Devices []string
	// XML is the active definition, or the persistent one of an inactive network.
	XML string
}

// Networks lists the host's networks (virConnectListAllNetworks, virNetworkGetXMLDesc). It leaves out networks that
// vanish meanwhile.
func (h *Host) Networks(ctx context.Context) ([]Network, error) {
	return call(ctx, h, readCall("listing networks"), (*conn).readNetworks)
}

func (c *conn) readNetworks() ([]Network, error) {
	var all, active []golibvirt.Network
	var lists errgroup.Group
	lists.Go(func() (err error) {
		c.countCall("virConnectListAllNetworks")
		all, err = c.c.ListAllNetworks(0)
		return err
	})
	lists.Go(func() (err error) {
		c.countCall("virConnectListAllNetworks")
		active, err = c.c.ListAllNetworks(golibvirt.CONNECT_LIST_NETWORKS_ACTIVE)
		return err
	})
	defer func() {
		for i := range all {
			_ = all[i].Free()
		}
		for i := range active {
			_ = active[i].Free()
		}
	}()
	if err := lists.Wait(); err != nil {
		return nil, err
	}
	isActive := map[string]bool{}
	for i := range active {
		uuid, err := active[i].GetUUIDString()
		if err != nil {
			return nil, err
		}
		isActive[uuid] = true
	}
	found := make([]*Network, len(all))
	calls := c.newPipeline()
	for i := range all {
		calls.Go(func() error {
			c.countCall("virNetworkGetXMLDesc")
			document, err := all[i].GetXMLDesc(0)
			if errors.Is(err, golibvirt.ERR_NO_NETWORK) {
				return nil
			}
			if err == nil {
				found[i], err = parseNetwork(document)
			}
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	networks := make([]Network, 0, len(found))
	for _, n := range found {
		if n != nil {
			n.Active = isActive[n.UUID]
			networks = append(networks, *n)
		}
	}
	return networks, nil
}

func parseNetwork(document string) (*Network, error) {
	var network struct {
		Name   string `xml:"name"`
		UUID   string `xml:"uuid"`
		Bridge struct {
			Name string `xml:"name,attr"`
		} `xml:"bridge"`
		Forward *struct {
			Mode      string       `xml:"mode,attr"`
			Addresses []pciAddress `xml:"address"`
		} `xml:"forward"`
		VirtualPort struct {
			Type string `xml:"type,attr"`
		} `xml:"virtualport"`
	}
	if err := xml.Unmarshal([]byte(document), &network); err != nil {
		return nil, fmt.Errorf("%w: a network's definition can't be read: %w", ErrInternal, err)
	}
	n := &Network{
		Name: network.Name, UUID: network.UUID, Bridge: network.Bridge.Name, VirtualPort: network.VirtualPort.Type,
		XML: document,
	}
	if network.Forward != nil {
		n.ForwardMode = network.Forward.Mode
		if n.ForwardMode == "" {
			n.ForwardMode = "nat"
		}
		for _, a := range network.Forward.Addresses {
			n.Devices = append(n.Devices, a.String())
		}
	}
	return n, nil
}

// BridgeExists reports whether the host has a network device of this name. known is false if the host's libvirt can
// list neither interfaces nor node devices; exists is false then.
//
// It uses virInterfaceLookupByName, which reports the current devices. If that finds none, it uses
// virConnectListAllNodeDevices, which on hosts with netcf also lists devices that aren't configured, but is only as
// recent as the last event of the host's udev.
func (h *Host) BridgeExists(ctx context.Context, name string) (exists, known bool, err error) {
	type answer struct{ exists, known bool }
	a, err := call(ctx, h, readCall("looking for bridge "+name), func(c *conn) (a answer, err error) {
		a.exists, a.known, err = c.hasInterface(name)
		if err != nil || a.exists {
			return a, err
		}
		exists, known, err := c.hasNetworkDevice(name)
		return answer{exists, known || a.known}, err
	})
	return a.exists, a.known, err
}

func (c *conn) hasInterface(name string) (exists, known bool, err error) {
	c.countCall("virInterfaceLookupByName")
	i, err := c.c.LookupInterfaceByName(name)
	switch {
	case err == nil:
		return true, true, i.Free()
	case errors.Is(err, golibvirt.ERR_NO_INTERFACE):
		return false, true, nil
	case c.lacksDriver(err):
		return false, false, nil
	}
	return false, false, err
}

func (c *conn) hasNetworkDevice(name string) (exists, known bool, err error) {
	c.countCall("virConnectListAllNodeDevices")
	devices, err := c.c.ListAllNodeDevices(golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_NET)
	if c.lacksDriver(err) {
		return false, false, nil
	}
	for i := range devices {
		if !exists && err == nil {
			exists, err = c.isInterface(&devices[i], name)
		}
		err = errors.Join(err, devices[i].Free())
	}
	return exists, len(devices) > 0, err
}

// lacksDriver reports whether an error means that the daemon lacks the driver: libvirt can be built without it, and if
// each driver has a daemon of its own, that daemon may not be installed.
func (c *conn) lacksDriver(err error) bool {
	kind := kindOf(codeOf(err))
	return errors.Is(kind, ErrUnsupported) || errors.Is(kind, ErrUnreachable) && !c.isLost()
}

// isInterface reports whether a node device is the network interface of that name. A device's own name contains the
// interface's with all characters but letters and digits replaced, so it only tells which devices are worth a round
// trip.
func (c *conn) isInterface(d *golibvirt.NodeDevice, name string) (bool, error) {
	deviceName, err := d.GetName()
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(deviceName, "net_"+mangledDeviceName(name)) {
		return false, nil
	}
	c.countCall("virNodeDeviceGetXMLDesc")
	document, err := d.GetXMLDesc(0)
	if errors.Is(err, golibvirt.ERR_NO_NODE_DEVICE) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var device struct {
		Interface string `xml:"capability>interface"`
	}
	if err := xml.Unmarshal([]byte(document), &device); err != nil {
		return false, fmt.Errorf("%w: a device's description can't be read: %w", ErrInternal, err)
	}
	return device.Interface == name, nil
}

// mangledDeviceName replaces the characters that libvirt replaces in a node device's name.
func mangledDeviceName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}
