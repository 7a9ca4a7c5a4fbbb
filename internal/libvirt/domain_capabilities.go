package libvirt

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"

	golibvirt "libvirt.org/go/libvirt"
)

// GuestDevices are the devices and CPU models that a host's hypervisor can provide to guests: the values of each
// enumeration of libvirt's domain capabilities, named by the device or feature and the enumeration
// ("tpm/backendModel"). A device that libvirt lists as not supported has an entry of its own name ("tpm") without
// values.
type GuestDevices map[string][]string

// GuestDevices reads the devices that the host can provide to a kind of guest (virConnectGetDomainCapabilities).
// virtType is "kvm" or "qemu". An empty arch means the host's, an empty machine the hypervisor's default machine type.
// Each kind of guest is read once per connection, as Info is. The result is shared and must not be changed.
func (h *Host) GuestDevices(ctx context.Context, arch, virtType, machine string) (GuestDevices, error) {
	kind := [3]string{arch, virtType, machine}
	h.infoMu.Lock()
	known := h.guestDevices[kind]
	h.infoMu.Unlock()
	if known.devices != nil && !known.c.isBroken() {
		return known.devices, nil
	}
	found, err := call(ctx, h, readCall("reading the devices for guests"), func(c *conn) (readDevices, error) {
		c.countCall("virConnectGetDomainCapabilities")
		document, err := c.c.GetDomainCapabilities("", arch, machine, virtType,
			golibvirt.ConnectGetDomainCapabilitiesFlags(0))
		if err != nil {
			return readDevices{}, err
		}
		devices, err := parseGuestDevices(document)
		return readDevices{devices, c}, err
	})
	if err != nil {
		return nil, err
	}
	h.infoMu.Lock()
	defer h.infoMu.Unlock()
	if h.guestDevices == nil {
		h.guestDevices = map[[3]string]readDevices{}
	}
	h.guestDevices[kind] = found
	return found.devices, nil
}

// readDevices are the devices for a kind of guest, and the connection that they were read from.
type readDevices struct {
	devices GuestDevices
	c       *conn
}

func parseGuestDevices(document string) (GuestDevices, error) {
	type listed struct {
		All []struct {
			XMLName   xml.Name
			Supported string `xml:"supported,attr"`
			// Name and Values are those of an enumeration that belongs to no device: the kinds of firmware.
			Name   string   `xml:"name,attr"`
			Values []string `xml:"value"`
			// MaxGuests and MaxESGuests are the limits of SEV.
			MaxGuests   []string `xml:"maxGuests"`
			MaxESGuests []string `xml:"maxESGuests"`
			Enums       []struct {
				Name   string   `xml:"name,attr"`
				Values []string `xml:"value"`
			} `xml:"enum"`
		} `xml:",any"`
	}
	var capabilities struct {
		OS  listed `xml:"os"`
		CPU struct {
			Modes []struct {
				Name   string `xml:"name,attr"`
				Models []struct {
					Usable string `xml:"usable,attr"`
					Name   string `xml:",chardata"`
				} `xml:"model"`
			} `xml:"mode"`
		} `xml:"cpu"`
		Devices  listed `xml:"devices"`
		Features listed `xml:"features"`
	}
	if err := xml.Unmarshal([]byte(document), &capabilities); err != nil {
		return nil, fmt.Errorf("%w: the domain capabilities can't be read: %w", ErrInternal, err)
	}
	found := GuestDevices{}
	for _, device := range slices.Concat(capabilities.OS.All, capabilities.Devices.All, capabilities.Features.All) {
		name := device.XMLName.Local
		if name == "enum" {
			found["os/"+device.Name] = device.Values
			continue
		}
		if name == "sev" || name == "s390-pv" { // Earlier versions say it of each. The list, where there is one, comes later.
			known := found[protections]
			if device.Supported == "yes" {
				known = append(known, name)
			}
			found[protections] = known
		}
		if device.Supported != "yes" {
			found[name] = nil
			continue
		}
		found[name+"/maxGuests"], found[name+"/maxESGuests"] = device.MaxGuests, device.MaxESGuests
		for _, enum := range device.Enums {
			found[device.XMLName.Local+"/"+enum.Name] = enum.Values
		}
	}
	for _, mode := range capabilities.CPU.Modes {
		for _, model := range mode.Models {
			if mode.Name == "custom" && model.Usable != "no" { // The host's CPU lacks a feature of the others.
				found[cpuModels] = append(found[cpuModels], model.Name)
			}
		}
	}
	return found, nil
}

// cpuModels is the enumeration of the CPU models that a guest can have: Values("cpu", "model").
const cpuModels = "cpu/model"

// Values returns the values of an enumeration; it is empty if the host doesn't report it.
func (g GuestDevices) Values(device, enum string) []string { return g[device+"/"+enum] }

// protections is the enumeration of the ways to protect a guest's memory, which libvirt lists from 10.5 on.
const protections = "launchSecurity/sectype"

// Has reports whether a value is among those of an enumeration; known is false if the host doesn't report it.
func (g GuestDevices) Has(device, enum, value string) (has, known bool) {
	if _, unsupported := g[device]; unsupported {
		return false, true
	}
	values, known := g[device+"/"+enum]
	return slices.Contains(values, value), known
}

// MaxGuests returns how many guests can have their memory protected by SEV at the same time, or by SEV-ES and SEV-SNP,
// which share other slots of the processor; known is false if the host doesn't report it.
func (g GuestDevices) MaxGuests(encryptedState bool) (limit int, known bool) {
	said := g["sev/maxGuests"]
	if encryptedState {
		said = g["sev/maxESGuests"]
	}
	if len(said) == 0 {
		return 0, false
	}
	limit, err := strconv.Atoi(said[0])
	return limit, err == nil
}
