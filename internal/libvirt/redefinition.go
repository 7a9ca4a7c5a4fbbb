package libvirt

import (
	"context"

	golibvirt "libvirt.org/go/libvirt"
)

// Redefinition returns a definition that would start a running domain again as it is, secrets included. It leaves out
// what exists only while the domain runs, such as ids and the paths of its consoles. A domain that lost its definition
// gets a new one this way. Never log it.
//
// It uses virDomainGetXMLDesc as a migration does (VIR_DOMAIN_XML_INACTIVE, SECURE and MIGRATABLE).
func (h *Host) Redefinition(ctx context.Context, uuid string) (string, error) {
	return onDomain(ctx, h, readCall("reading domain "+uuid), uuid,
		func(c *conn, d *golibvirt.Domain) (string, error) {
			return c.domainXML(d, persistentXML|golibvirt.DOMAIN_XML_MIGRATABLE)
		})
}
