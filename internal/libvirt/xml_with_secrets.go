package libvirt

import (
	"context"

	golibvirt "libvirt.org/go/libvirt"
)

// The functions of this file are the only ones whose XML has secrets.

// completeXML are the flags to read a definition that is edited and defined again: without SECURE, it would lose its
// passwords.
const completeXML = golibvirt.DOMAIN_XML_INACTIVE | golibvirt.DOMAIN_XML_SECURE

// CompleteXML returns the definition for the domain's next start with its secrets, such as a VNC password, so that it
// can be edited and defined again. Never log it.
//
// It uses virDomainGetXMLDesc as "virsh edit" does (VIR_DOMAIN_XML_INACTIVE and SECURE).
func (h *Host) CompleteXML(ctx context.Context, uuid string) (string, error) {
	return onDomain(ctx, h, readCall("reading domain "+uuid), uuid,
		func(c *conn, d *golibvirt.Domain) (string, error) { return c.domainXML(d, completeXML) })
}

// Redefinition returns a definition that would start a running domain again as it is, secrets included. It leaves out
// what exists only while the domain runs, such as ids and the paths of its consoles. A domain that lost its definition
// gets a new one this way. Never log it.
//
// It uses virDomainGetXMLDesc as a migration does (VIR_DOMAIN_XML_INACTIVE, SECURE and MIGRATABLE).
func (h *Host) Redefinition(ctx context.Context, uuid string) (string, error) {
	return onDomain(ctx, h, readCall("reading domain "+uuid), uuid,
		func(c *conn, d *golibvirt.Domain) (string, error) {
			return c.domainXML(d, completeXML|golibvirt.DOMAIN_XML_MIGRATABLE)
		})
}

// MigratableXML returns the running domain's XML in the form that a migration sends (virDomainGetXMLDesc with
// VIR_DOMAIN_XML_MIGRATABLE). QEMU's driver has the passwords in it, whether or not they are asked for. Never log it.
func (h *Host) MigratableXML(ctx context.Context, uuid string) (string, error) {
	s := readCall("reading domain " + uuid)
	return onDomain(ctx, h, s, uuid,
		func(c *conn, d *golibvirt.Domain) (string, error) {
			return c.domainXML(d, golibvirt.DOMAIN_XML_MIGRATABLE)
		})
}
