package libvirt

import (
	"cmp"
	"context"
	"errors"
	"math/bits"

	golibvirt "libvirt.org/go/libvirt"
)

// Address is one address of a guest's interface.
type Address struct {
	Device string // the name in the guest (agent) or on the host (lease, ARP)
	MAC    string
	IP     string
	Prefix int
}

// AddressSource is the source of a guest's addresses.
type AddressSource int

// The sources of a guest's addresses.
const (
	// SourceAgent asks the guest agent.
	SourceAgent AddressSource = iota
	// SourceLease asks libvirt's own DHCP server.
	SourceLease
	// SourceARP asks the host's neighbour table.
	SourceARP
)

// InterfaceAddresses reads a guest's addresses from one source (virDomainInterfaceAddresses). The agent also reports
// addresses of loopback interfaces.
func (h *Host) InterfaceAddresses(ctx context.Context, uuid string, source AddressSource) ([]Address, error) {
	s, from := readCall("reading the addresses of domain "+uuid), golibvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE
	switch source {
	case SourceAgent:
		s = agentCall("asking the guest agent for the addresses of domain " + uuid)
		from = golibvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT
	case SourceARP:
		from = golibvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_ARP
	case SourceLease:
	}
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) ([]Address, error) {
		c.countCall("virDomainInterfaceAddresses")
		interfaces, err := d.ListAllInterfaceAddresses(from)
		if err != nil {
			return nil, err
		}
		addresses := []Address{}
		for _, i := range interfaces {
			for _, a := range i.Addrs {
				if isAddress(a.Addr) {
					addresses = append(addresses, Address{
						Device: plainLine(i.Name), MAC: plainLine(i.Hwaddr), IP: a.Addr, Prefix: int(a.Prefix),
					})
				}
			}
		}
		return addresses, nil
	})
}

// AgentCommand sends a JSON command to the guest agent and returns its JSON answer (virDomainQemuAgentCommand). It
// marks the domain as tainted, so a plan must not use it.
func (h *Host) AgentCommand(ctx context.Context, uuid, command string) (string, error) {
	s := agentCall("sending a command to the guest agent of domain " + uuid)
	s.patient = true // Freezing filesystems may take any time.
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (string, error) {
		c.countCall("virDomainQemuAgentCommand")
		return d.QemuAgentCommand(command, golibvirt.DOMAIN_QEMU_AGENT_COMMAND_DEFAULT, 0)
	})
}

// SetGuestTime makes the guest agent set the guest's clock from its hardware clock, which follows the host's clock
// (virDomainSetTime). After a pause or a migration the guest's own clock is behind.
func (h *Host) SetGuestTime(ctx context.Context, uuid string) error {
	s := agentCall("setting the clock of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainSetTime",
		func(d *golibvirt.Domain) error { return d.SetTime(0, 0, golibvirt.DOMAIN_TIME_SYNC) })
}

// GuestInfo asks the guest agent about the guest (virDomainGetGuestInfo). It leaves out groups that this libvirt or
// this agent can't report. If only one group is requested, the error says why it can't be reported.
func (h *Host) GuestInfo(ctx context.Context, uuid string, groups GuestInfoGroups) (*GuestInfo, error) {
	s := agentCall("asking the guest agent about domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (*GuestInfo, error) {
		c.countCall("virDomainGetGuestInfo")
		info, err := d.GetGuestInfo(groups.types(), 0)
		if bits.OnesCount(uint(groups)) > 1 && cannotReport(err) {
			// If all groups are requested, the agent leaves out those that it can't report.
			c.countCall("virDomainGetGuestInfo")
			info, err = d.GetGuestInfo(0, 0)
			if err == nil {
				return guestInfo(info, groups, false), nil
			}
		}
		if errors.Is(err, golibvirt.ERR_RPC) && bits.OnesCount(uint(groups)) != 1 && !c.isLost() {
			return c.eachGroup(d, groups, err)
		}
		if err != nil {
			return nil, err
		}
		return guestInfo(info, groups, groups != 0), nil
	})
}

// eachGroup requests one group after the other, because the guest reports more than one answer can hold. It fails only
// if all of these requests fail.
func (c *conn) eachGroup(d *golibvirt.Domain, groups GuestInfoGroups, why error) (*GuestInfo, error) {
	all := &GuestInfo{}
	for group := GuestUsers; group <= GuestLoadInfo; group <<= 1 {
		if groups != 0 && groups&group == 0 {
			continue
		}
		c.countCall("virDomainGetGuestInfo")
		info, err := d.GetGuestInfo(group.types(), 0)
		if err != nil {
			if c.isLost() {
				return nil, err
			}
			continue
		}
		why = nil
		all.addReported(guestInfo(info, group, true))
	}
	if why != nil {
		return nil, why
	}
	return all, nil
}

// addReported adds the groups that another answer reports.
func (g *GuestInfo) addReported(from *GuestInfo) {
	g.OS, g.Hostname = cmp.Or(from.OS, g.OS), cmp.Or(from.Hostname, g.Hostname)
	g.Timezone, g.Load = cmp.Or(from.Timezone, g.Timezone), cmp.Or(from.Load, g.Load)
	if from.Users != nil {
		g.Users = from.Users
	}
	if from.Filesystems != nil {
		g.Filesystems = from.Filesystems
	}
	if from.Disks != nil {
		g.Disks = from.Disks
	}
	if from.Interfaces != nil {
		g.Interfaces = from.Interfaces
	}
}

// cannotReport reports whether a group was refused by libvirt (unknown flag) or by the agent (unknown command).
func cannotReport(err error) bool {
	return errors.Is(err, golibvirt.ERR_INVALID_ARG) || errors.Is(err, golibvirt.ERR_ARGUMENT_UNSUPPORTED) ||
		errors.Is(err, golibvirt.ERR_OPERATION_UNSUPPORTED) || errors.Is(err, golibvirt.ERR_AGENT_COMMAND_FAILED) ||
		errors.Is(err, golibvirt.ERR_INTERNAL_ERROR)
}

// GuestInfoGroups is a set of groups that GuestInfo requests; 0 means all that the agent supports.
type GuestInfoGroups uint

// The groups of guest information.
const (
	GuestUsers GuestInfoGroups = 1 << iota
	GuestOSInfo
	GuestTimezoneInfo
	GuestHostname
	GuestFilesystems
	GuestDisks
	GuestInterfaces
	GuestLoadInfo
)

var guestInfoTypes = map[GuestInfoGroups]golibvirt.DomainGuestInfoTypes{
	GuestUsers:        golibvirt.DOMAIN_GUEST_INFO_USERS,
	GuestOSInfo:       golibvirt.DOMAIN_GUEST_INFO_OS,
	GuestTimezoneInfo: golibvirt.DOMAIN_GUEST_INFO_TIMEZONE,
	GuestHostname:     golibvirt.DOMAIN_GUEST_INFO_HOSTNAME,
	GuestFilesystems:  golibvirt.DOMAIN_GUEST_INFO_FILESYSTEM,
	GuestDisks:        golibvirt.DOMAIN_GUEST_INFO_DISKS,
	GuestInterfaces:   golibvirt.DOMAIN_GUEST_INFO_INTERFACES,
	GuestLoadInfo:     golibvirt.DOMAIN_GUEST_INFO_LOAD,
}

func (g GuestInfoGroups) types() golibvirt.DomainGuestInfoTypes {
	var types golibvirt.DomainGuestInfoTypes
	for group, t := range guestInfoTypes {
		if g&group != 0 {
			types |= t
		}
	}
	return types
}
