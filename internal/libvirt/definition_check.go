package libvirt

import (
	"context"
	"errors"
	"slices"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// refusals are the errors that say that a definition asks for what libvirt, QEMU or the machine type can't do.
var refusals = []golibvirt.ErrorNumber{
	golibvirt.ERR_CONFIG_UNSUPPORTED, golibvirt.ERR_ARGUMENT_UNSUPPORTED, golibvirt.ERR_XML_ERROR,
	golibvirt.ERR_XML_DETAIL, golibvirt.ERR_INVALID_ARG, golibvirt.ERR_INTERNAL_ERROR,
}

// RefusalOf says why the host wouldn't define or start a domain with this definition, in libvirt's words; empty if it
// would, or can't say. libvirt builds QEMU's command line for it, which changes nothing and needs neither the disks nor
// the networks (virConnectDomainXMLToNative).
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
		return "", nil // A device of the host is prepared before a command line can be built.
	case slices.Contains(refusals, golibvirt.ErrorNumber(e.Code)):
		return e.Err.Error(), nil
	default:
		return "", nil // A secret or a volume that comes with the same apply, or a driver that has no command lines.
	}
}

// lendsNetworkCard says whether a definition has an interface that is a device of the host. To build a command line,
// libvirt makes another interface of it and goes on using what it has freed of the old one: libvirtd 9.0 crashes.
func lendsNetworkCard(xml string) bool {
	return strings.Contains(xml, `type="hostdev"`) || strings.Contains(xml, `type='hostdev'`)
}

// runsScript says whether a definition has an interface with a script of its own. libvirt runs it for a command line,
// too.
func runsScript(xml string) bool { return strings.Contains(xml, "<script path=") }

// usesHostDevices says whether a definition has devices of the host's or of another process.
func usesHostDevices(xml string) bool {
	return slices.ContainsFunc([]string{"<hostdev", "hostdev'", `hostdev"`, "vhostuser", "vdpa"}, func(s string) bool {
		return strings.Contains(xml, s)
	})
}
