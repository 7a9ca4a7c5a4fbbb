package libvirt

import (
	"context"
	"errors"
	"slices"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// refusals are the errors for a definition that requires something that libvirt, QEMU or the machine type doesn't
// support.
var refusals = []golibvirt.ErrorNumber{
	golibvirt.ERR_CONFIG_UNSUPPORTED, golibvirt.ERR_ARGUMENT_UNSUPPORTED, golibvirt.ERR_XML_ERROR,
	golibvirt.ERR_XML_DETAIL, golibvirt.ERR_INVALID_ARG, golibvirt.ERR_INTERNAL_ERROR,
	golibvirt.ERR_CPU_INCOMPATIBLE,
}

// RefusalOf returns why the host would refuse to define or start a domain with this definition, in libvirt's words; ""
// if it wouldn't, or if that is unknown. libvirt builds QEMU's command line from the definition, which changes nothing
// and requires neither the disks nor the networks (virConnectDomainXMLToNative).
func (h *Host) RefusalOf(ctx context.Context, xml string) (string, error) {
	if lendsNetworkCard(xml) || runsScript(xml) {
		return "", nil
	}
	_, err := call(ctx, h, readCall("checking a definition"), func(c *conn) (string, error) {
		c.countCall("virConnectDomainXMLToNative")
		return c.c.DomainXMLToNative("qemu-argv", xml, 0)
	})
	var e *Error
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil, errors.Is(err, ErrUnreachable), !errors.As(err, &e):
		return "", err
	case e.Code == int(golibvirt.ERR_INTERNAL_ERROR) && usesHostDevices(xml):
		return "", nil // libvirt prepares a device of the host before it can build a command line.
	case e.Code == int(golibvirt.ERR_OPERATION_FAILED) && usesVirtiofs(xml),
		slices.Contains(refusals, golibvirt.ErrorNumber(e.Code)):
		return e.Err.Error(), nil
	default:
		return "", nil // It is a secret or a volume that the same apply creates, or a driver without command lines.
	}
}

// usesVirtiofs reports whether a definition has a directory that virtiofsd shares. Of a host without virtiofsd, libvirt
// says that the operation failed.
func usesVirtiofs(xml string) bool {
	return strings.Contains(xml, `type="virtiofs"`) || strings.Contains(xml, "type='virtiofs'")
}

// lendsNetworkCard reports whether a definition has an interface that is a device of the host. To build a command line,
// libvirt replaces such an interface and then uses the freed memory of the old one: libvirtd 9.0 crashes.
func lendsNetworkCard(xml string) bool {
	return strings.Contains(xml, `type="hostdev"`) || strings.Contains(xml, `type='hostdev'`)
}

// runsScript reports whether a definition has an interface with a script of its own, which libvirt would run to build a
// command line.
func runsScript(xml string) bool { return strings.Contains(xml, "<script path=") }

// usesHostDevices reports whether a definition has devices of the host or of another process.
func usesHostDevices(xml string) bool {
	return slices.ContainsFunc([]string{"<hostdev", "hostdev'", `hostdev"`, "vhostuser", "vdpa"}, func(s string) bool {
		return strings.Contains(xml, s)
	})
}
