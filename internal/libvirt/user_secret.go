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
	private := "no"
	if s.Private {
		private = "yes"
	}
	return fmt.Sprintf("<secret ephemeral='no' private='%s'><uuid>%s</uuid><description>%s</description>"+
		"<usage type='%s'><%[5]s>%[6]s</%[5]s></usage></secret>", private, escapeXML(s.UUID), escapeXML(s.Description),
		escapeXML(s.Usage), usageElement(s.Usage), escapeXML(s.UsageID))
}

// UserSecret reads the secret with that UUID (virSecretGetXMLDesc).
func (h *Host) UserSecret(ctx context.Context, uuid string) (*UserSecret, error) {
	return call(ctx, h, readCall("reading secret "+uuid), func(c *conn) (*UserSecret, error) {
		c.countCall("virSecretLookupByUUIDString")
		return c.userSecret(c.c.LookupSecretByUUIDString(uuid))
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

// SecretByUsage reads the secret with that usage and usage id, without its value.
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
// ErrExists if another secret has the usage id.
func (h *Host) PutUserSecret(ctx context.Context, s UserSecret, value []byte) error {
	other, err := h.SecretByUsage(ctx, s.Usage, s.UsageID)
	if err == nil && other.UUID != s.UUID {
		return h.wrap(defineCall("defining secret "+s.UUID), fmt.Errorf("%w: secret %s is the one for %s %q", ErrExists,
			other.UUID, s.Usage, s.UsageID), false)
	} else if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	isNew := err != nil
	own := append([]byte(nil), value...)
	_, err = call(ctx, h, defineCall("defining secret "+s.UUID), func(c *conn) (_ struct{}, err error) {
		c.countCall("virSecretDefineXML")
		secret, err := c.c.SecretDefineXML(s.definitionXML(), 0)
		if err != nil {
			return struct{}{}, err
		}
		defer func() { err = errors.Join(err, secret.Free()) }()
		if value == nil {
			return struct{}{}, nil
		}
		c.countCall("virSecretSetValue")
		if err = secret.SetValue(own, 0); err != nil && isNew {
			c.countCall("virSecretUndefine")
			err = errors.Join(err, secret.Undefine())
		}
		return struct{}{}, err
	})
	return err
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
