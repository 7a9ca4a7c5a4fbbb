package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"

	golibvirt "libvirt.org/go/libvirt"
)

// SecretUsages are the usage types that a host secret may have.
func SecretUsages() []string { return []string{"ceph", "iscsi", "volume", "tls", "vtpm"} }

// UserSecret is what a host reports about a secret that a user manages, without its value.
type UserSecret struct {
	UUID string
	// Usage is one of SecretUsages. UsageID says what the secret is for: on a host it is unique among the secrets of the
	// same usage.
	Usage, UsageID string
	Description    string
	// Private says that libvirt doesn't return the value, Ephemeral that the host doesn't store the secret.
	Private, Ephemeral bool
}

// beingCreated describes a secret on its host, which doesn't store it, until PutUserSecret has set its value. So a
// killed run leaves no secret that lacks its value and looks like a complete one: libvirt may reveal no values.
const beingCreated = "virtfleet is creating this secret"

// isUnfinished reports whether the creation of the secret was interrupted, or isn't over.
func (s UserSecret) isUnfinished() bool { return s.Ephemeral && s.Description == beingCreated }

// usageElement returns the element that has a usage's id in libvirt's XML.
func usageElement(usage string) string {
	switch usage {
	case "volume":
		return "volume"
	case "iscsi":
		return "target"
	default:
		return "name"
	}
}

// definitionXML returns libvirt's XML of the secret.
func (s UserSecret) definitionXML() string {
	yes := map[bool]string{true: "yes", false: "no"}
	return fmt.Sprintf("<secret ephemeral='%s' private='%s'><uuid>%s</uuid><description>%s</description>"+
		"<usage type='%s'><%[6]s>%[7]s</%[6]s></usage></secret>", yes[s.Ephemeral], yes[s.Private], escapeXML(s.UUID),
		escapeXML(s.Description), escapeXML(s.Usage), usageElement(s.Usage), escapeXML(s.UsageID))
}

// UserSecret reads the secret with that UUID (virSecretGetXMLDesc). One whose creation was interrupted is
// ErrNotFound.
func (h *Host) UserSecret(ctx context.Context, uuid string) (*UserSecret, error) {
	return call(ctx, h, readCall("reading secret "+uuid), func(c *conn) (*UserSecret, error) {
		c.countCall("virSecretLookupByUUIDString")
		s, err := c.userSecret(c.c.LookupSecretByUUIDString(uuid))
		if err == nil && s.isUnfinished() {
			return nil, fmt.Errorf("%w: the creation of the secret was interrupted", ErrNotFound)
		}
		return s, err
	})
}

// UserSecretValue reads the value of the secret with that UUID, which must not be private (virSecretGetValue).
func (h *Host) UserSecretValue(ctx context.Context, uuid string) ([]byte, error) {
	return onSecret(ctx, h, readCall("reading the value of secret "+uuid), OwnSecret{UUID: uuid},
		func(c *conn, secret *golibvirt.Secret) ([]byte, error) {
			c.countCall("virSecretGetValue")
			return secret.GetValue(0)
		})
}

// SecretByUsage reads the secret with that usage and usage id, without its value. Its creation may have been
// interrupted.
func (h *Host) SecretByUsage(ctx context.Context, usage, usageID string) (*UserSecret, error) {
	types := map[string]golibvirt.SecretUsageType{
		"ceph": golibvirt.SECRET_USAGE_TYPE_CEPH, "iscsi": golibvirt.SECRET_USAGE_TYPE_ISCSI,
		"volume": golibvirt.SECRET_USAGE_TYPE_VOLUME, "tls": golibvirt.SECRET_USAGE_TYPE_TLS,
		"vtpm": golibvirt.SECRET_USAGE_TYPE_VTPM,
	}
	return call(ctx, h, readCall("reading the secret of "+usage+" "+usageID), func(c *conn) (*UserSecret, error) {
		c.countCall("virSecretLookupByUsage")
		return c.userSecret(c.c.LookupSecretByUsage(types[usage], usageID))
	})
}

func (c *conn) userSecret(secret *golibvirt.Secret, err error) (*UserSecret, error) {
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, secret.Free()) }()
	c.countCall("virSecretGetXMLDesc")
	text, err := secret.GetXMLDesc(0)
	if err != nil {
		return nil, err
	}
	var document struct {
		Private     string `xml:"private,attr"`
		Ephemeral   string `xml:"ephemeral,attr"`
		UUID        string `xml:"uuid"`
		Description string `xml:"description"`
		Usage       struct {
			Type   string `xml:"type,attr"`
			Name   string `xml:"name"`
			Target string `xml:"target"`
			Volume string `xml:"volume"`
		} `xml:"usage"`
	}
	if err := xml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("%w: a secret's definition can't be read: %w", ErrInternal, err)
	}
	return &UserSecret{
		UUID: document.UUID, Usage: document.Usage.Type, Description: document.Description,
		UsageID: document.Usage.Name + document.Usage.Target + document.Usage.Volume, Private: document.Private == "yes",
		Ephemeral: document.Ephemeral == "yes",
	}, nil
}

// PutUserSecret defines the secret, or changes the secret with its UUID, and sets its value unless that is nil
// (virSecretDefineXML, virSecretSetValue). A new secret whose value can't be set is removed. PutUserSecret returns
// ErrExists if another secret has the usage id. The host stores the secret, also if it was ephemeral.
func (h *Host) PutUserSecret(ctx context.Context, s UserSecret, value []byte) error {
	s.Ephemeral = false
	other, err := h.SecretByUsage(ctx, s.Usage, s.UsageID)
	if err == nil && other.UUID != s.UUID {
		return h.wrap(defineCall("defining secret "+s.UUID), fmt.Errorf("%w: secret %s is the one for %s %q", ErrExists,
			other.UUID, s.Usage, s.UsageID), false)
	} else if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	isNew := err != nil || other.isUnfinished()
	own := append([]byte(nil), value...)
	_, err = call(ctx, h, defineCall("defining secret "+s.UUID), func(c *conn) (struct{}, error) {
		switch {
		case value == nil:
			return struct{}{}, c.defineUserSecret(s, nil)
		case isNew:
			return struct{}{}, c.createUserSecret(s, own)
		default:
			return struct{}{}, c.defineUserSecret(s, func(secret *golibvirt.Secret) error { return c.setValue(secret, own) })
		}
	})
	return err
}

// createUserSecret creates a secret with its value, of which the host stores nothing before it has both.
func (c *conn) createUserSecret(s UserSecret, value []byte) error {
	if c.completeSecret(s.UUID) { // Another run has created it since it was looked for.
		return c.defineUserSecret(s, func(secret *golibvirt.Secret) error { return c.setValue(secret, value) })
	}
	first := s
	first.Ephemeral, first.Description = true, beingCreated
	return c.defineUserSecret(first, func(secret *golibvirt.Secret) error {
		err := c.setValue(secret, value)
		if err == nil {
			err = c.defineUserSecret(s, nil)
		}
		if err != nil && !c.completeSecret(s.UUID) {
			c.countCall("virSecretUndefine")
			err = errors.Join(err, secret.Undefine())
		}
		return err
	})
}

// completeSecret reports whether the host has the secret, and its creation is complete.
func (c *conn) completeSecret(uuid string) bool {
	c.countCall("virSecretLookupByUUIDString")
	have, err := c.userSecret(c.c.LookupSecretByUUIDString(uuid))
	return err == nil && !have.isUnfinished()
}

// defineUserSecret defines the secret, and then does something with it unless that is nil.
func (c *conn) defineUserSecret(s UserSecret, then func(*golibvirt.Secret) error) (err error) {
	c.countCall("virSecretDefineXML")
	secret, err := c.c.SecretDefineXML(s.definitionXML(), 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, secret.Free()) }()
	if then == nil {
		return nil
	}
	return then(secret)
}

func (c *conn) setValue(secret *golibvirt.Secret, value []byte) error {
	c.countCall("virSecretSetValue")
	return secret.SetValue(value, 0)
}

// RemoveUserSecret removes the secret with that UUID and its value (virSecretUndefine). It is no error if the secret
// doesn't exist.
func (h *Host) RemoveUserSecret(ctx context.Context, uuid string) error {
	err := h.undefineSecret(ctx, OwnSecret{UUID: uuid})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
