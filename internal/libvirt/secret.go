package libvirt

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"

	"github.com/google/uuid"
	golibvirt "libvirt.org/go/libvirt"
)

// SecretUsage is the usage type of a secret.
type SecretUsage string

// SecretUsageVTPM is the usage type whose usage ids are free text.
const SecretUsageVTPM SecretUsage = "vtpm"

// Secret is a libvirt secret: a small value that is kept by the host under a unique usage id.
type Secret struct {
	// UUID is made up when a secret is defined without one. Where a secret is to be found it wins over UsageID, so that
	// one which another program has defined anew under the same usage id is never hit.
	UUID        string
	UsageType   SecretUsage // "" means SecretUsageVTPM, the only one there is
	UsageID     string
	Description string
	Value       []byte // nil: it has none
}

// secretXML is libvirt's secret document.
type secretXML struct {
	XMLName     xml.Name `xml:"secret"`
	Ephemeral   string   `xml:"ephemeral,attr"`
	Private     string   `xml:"private,attr"`
	UUID        string   `xml:"uuid"`
	Description string   `xml:"description,omitempty"`
	Usage       struct {
		Type string `xml:"type,attr"`
		Name string `xml:"name"`
	} `xml:"usage"`
}

// DefineSecret makes a secret that is kept on disk and can be read back. When its usage id is taken it changes nothing
// and its error is ErrExists: of several that define the same at once exactly one succeeds. The value is set right
// after; in between others see the secret without one.
//
// It uses virSecretDefineXML and virSecretSetValue.
func (h *Host) DefineSecret(ctx context.Context, s Secret) error {
	document := secretXML{
		Ephemeral: "no", Private: "no", UUID: cmp.Or(s.UUID, uuid.NewString()), Description: s.Description,
	}
	document.Usage.Type, document.Usage.Name = string(SecretUsageVTPM), s.UsageID
	text, err := xml.Marshal(document)
	if err != nil {
		return h.wrap(defineCall("defining secret "+s.UsageID), fmt.Errorf("%w secret: %w", ErrInvalid, err), false)
	}
	value := append([]byte(nil), s.Value...)
	_, err = call(ctx, h, defineCall("defining secret "+s.UsageID), func(c *conn) (struct{}, error) {
		return struct{}{}, c.defineSecret(string(text), s.UsageID, value)
	})
	return err
}

func (c *conn) defineSecret(document, usageID string, value []byte) (err error) {
	c.countCall("virSecretDefineXML")
	secret, err := c.c.SecretDefineXML(document, 0)
	if errors.Is(err, golibvirt.ERR_INTERNAL_ERROR) {
		// libvirt has no number of its own for this refusal.
		if c.hasSecret(usageID) {
			return fmt.Errorf("%w: a secret with this usage id", ErrExists)
		}
		// The one that caused the conflict is gone since, or it is something else, which it will be again.
		c.countCall("virSecretDefineXML")
		secret, err = c.c.SecretDefineXML(document, 0)
		if errors.Is(err, golibvirt.ERR_INTERNAL_ERROR) && c.hasSecret(usageID) {
			return fmt.Errorf("%w: a secret with this usage id", ErrExists)
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, secret.Free()) }()
	if len(value) == 0 {
		return nil
	}
	c.countCall("virSecretSetValue")
	if err = secret.SetValue(value, 0); err != nil {
		// It is ours and useless: leave nothing behind.
		c.countCall("virSecretUndefine")
		err = errors.Join(err, secret.Undefine())
	}
	return err
}

func (c *conn) hasSecret(usageID string) bool {
	secret, err := c.lookupSecret(Secret{UsageID: usageID})
	if err != nil {
		return false
	}
	_ = secret.Free()
	return true
}

func (c *conn) lookupSecret(s Secret) (*golibvirt.Secret, error) {
	if s.UUID != "" {
		c.countCall("virSecretLookupByUUIDString")
		return c.c.LookupSecretByUUIDString(s.UUID)
	}
	c.countCall("virSecretLookupByUsage")
	return c.c.LookupSecretByUsage(golibvirt.SECRET_USAGE_TYPE_VTPM, s.UsageID)
}

// Secret reads a secret and its value (virSecretGetXMLDesc, virSecretGetValue).
func (h *Host) Secret(ctx context.Context, usageID string) (*Secret, error) {
	return onSecret(ctx, h, readCall("reading secret "+usageID), Secret{UsageID: usageID},
		func(c *conn, secret *golibvirt.Secret) (*Secret, error) {
			c.countCall("virSecretGetXMLDesc")
			text, err := secret.GetXMLDesc(0)
			if err != nil {
				return nil, err
			}
			var document secretXML
			if err := xml.Unmarshal([]byte(text), &document); err != nil {
				return nil, fmt.Errorf("%w: a secret's definition can't be read: %w", ErrInternal, err)
			}
			s := &Secret{
				UUID: document.UUID, UsageType: SecretUsageVTPM, UsageID: usageID, Description: document.Description,
			}
			c.countCall("virSecretGetValue")
			s.Value, err = secret.GetValue(0)
			if errors.Is(err, golibvirt.ERR_NO_SECRET) && c.hasSecret(usageID) {
				// The same number stands for a secret without a value and for none.
				return s, nil
			}
			return s, err
		})
}

// SetSecretValue writes s.Value to the secret that s names, which must exist (virSecretSetValue).
func (h *Host) SetSecretValue(ctx context.Context, s Secret) error {
	value := append([]byte(nil), s.Value...)
	_, err := onSecret(ctx, h, defineCall("writing secret "+s.UsageID), s,
		func(c *conn, secret *golibvirt.Secret) (struct{}, error) {
			c.countCall("virSecretSetValue")
			return struct{}{}, secret.SetValue(value, 0)
		})
	return err
}

// UndefineSecret removes the secret that s names, and its value (virSecretUndefine).
func (h *Host) UndefineSecret(ctx context.Context, s Secret) error {
	_, err := onSecret(ctx, h, defineCall("removing secret "+s.UsageID), s,
		func(c *conn, secret *golibvirt.Secret) (struct{}, error) {
			c.countCall("virSecretUndefine")
			return struct{}{}, secret.Undefine()
		})
	return err
}

// onSecret runs f on a secret. Its error is ErrNotFound when the host has no such secret.
func onSecret[T any](
	ctx context.Context, h *Host, s callSpec, which Secret, f func(*conn, *golibvirt.Secret) (T, error),
) (T, error) {
	return call(ctx, h, s, func(c *conn) (value T, err error) {
		secret, err := c.lookupSecret(which)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, secret.Free()) }()
		return f(c, secret)
	})
}
