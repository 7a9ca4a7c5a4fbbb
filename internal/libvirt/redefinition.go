package libvirt

import (
	"context"

	golibvirt "libvirt.org/go/libvirt"
)

// Redefinition gives the definition that would start a running domain again as it is, secrets included: what exists
// only while it runs, such as ids and the paths of its consoles, is left out. It is how a domain that lost its
// definition gets one back. Never log it.
//
// It uses virDomainGetXMLDesc as a migration does (VIR_DOMAIN_XML_INACTIVE, SECURE and MIGRATABLE).
func (h *Host) Redefinition(ctx context.Context, uuid string) (string, error) {
	return onDomain(ctx, h, readCall("reading domain "+uuid), uuid,
		func(c *conn, d *golibvirt.Domain) (string, error) {
			return c.domainXML(d, persistentXML|golibvirt.DOMAIN_XML_MIGRATABLE)
		})
}
