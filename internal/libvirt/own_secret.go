package libvirt

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// SecretUsage is the usage type of a secret.
type SecretUsage string

// SecretUsageVTPM is the usage type whose usage ids are free text.
const SecretUsageVTPM SecretUsage = "vtpm"

// OwnSecret is a libvirt secret that the provider keeps for itself: a lock, the host's record, a mark. The host stores
// its small value under a unique usage id. Secrets that users manage are UserSecret.
type OwnSecret struct {
	// UUID is generated if a secret is defined without one. When a secret is looked up, UUID takes precedence over
	// UsageID, so that a secret that another program has defined since under the same usage id is never changed.
	UUID        string
	UsageType   SecretUsage // "" means SecretUsageVTPM, currently the only one
	UsageID     string
	Description string
	Value       []byte // nil if the secret has no value
}

// secretXML is libvirt's XML of a secret.
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

// DefineOwnSecret defines a secret that is kept on disk and can be read back. If its usage id is taken, it changes
// nothing and returns ErrExists: if several callers define the same secret at once, exactly one succeeds. The value is
// set right afterwards; in between, others see the secret without a value.
//
// It uses virSecretDefineXML and virSecretSetValue.
func (h *Host) DefineOwnSecret(ctx context.Context, s OwnSecret) error {
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
	return h.withoutSecrets(err)
}

func (c *conn) defineSecret(document, usageID string, value []byte) (err error) {
	c.countCall("virSecretDefineXML")
	secret, err := c.c.SecretDefineXML(document, 0)
	if errors.Is(err, golibvirt.ERR_INTERNAL_ERROR) {
		// libvirt has no error number of its own for this refusal.
		if c.hasSecret(usageID) {
			return fmt.Errorf("%w: a secret with this usage id", ErrExists)
		}
		// Either the conflicting secret no longer exists, or the refusal has another cause, which will appear again.
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
	c.keepSecret(secret)
	if len(value) == 0 {
		return nil
	}
	c.countCall("virSecretSetValue")
	if err = secret.SetValue(value, 0); err != nil {
		// The secret is ours and useless without a value: remove it.
		err = errors.Join(err, c.undefineSecret(secret))
	}
	return err
}

// undefineSecret removes a secret, whose handle isn't needed any more.
func (c *conn) undefineSecret(secret *golibvirt.Secret) error {
	c.countCall("virSecretUndefine")
	err := secret.Undefine()
	if uuid, readErr := secret.GetUUIDString(); readErr == nil { // No round trip: the handle has it.
		c.mu.Lock()
		defer c.mu.Unlock()
		if kept := c.secrets[uuid]; kept != nil {
			_ = kept.Free()
			delete(c.secrets, uuid)
		}
	}
	return err
}

// keepSecret stores the handle of a secret, which spares those who know its UUID the round trip to look it up.
func (c *conn) keepSecret(secret *golibvirt.Secret) {
	uuid, err := secret.GetUUIDString()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.secrets[uuid] == nil && secret.Ref() == nil {
		c.secrets[uuid] = secret
	}
}

// keptSecret returns a stored handle with a reference that the caller frees, or nil.
func (c *conn) keptSecret(uuid string) *golibvirt.Secret {
	c.mu.Lock()
	defer c.mu.Unlock()
	secret := c.secrets[uuid]
	if secret == nil || secret.Ref() != nil {
		return nil
	}
	return secret
}

func (c *conn) hasSecret(usageID string) bool {
	secret, err := c.lookupSecret(OwnSecret{UsageID: usageID})
	if err != nil {
		return false
	}
	_ = secret.Free()
	return true
}

func (c *conn) lookupSecret(s OwnSecret) (*golibvirt.Secret, error) {
	if s.UUID != "" {
		if kept := c.keptSecret(s.UUID); kept != nil {
			return kept, nil
		}
		c.countCall("virSecretLookupByUUIDString")
		secret, err := c.c.LookupSecretByUUIDString(s.UUID)
		if err == nil {
			c.keepSecret(secret)
		}
		return secret, err
	}
	c.countCall("virSecretLookupByUsage")
	return c.c.LookupSecretByUsage(golibvirt.SECRET_USAGE_TYPE_VTPM, s.UsageID)
}

// OwnSecret reads a secret and its value in two round trips (virSecretGetXMLDesc, virSecretGetValue).
func (h *Host) OwnSecret(ctx context.Context, usageID string) (*OwnSecret, error) {
	return onSecret(ctx, h, readCall("reading secret "+usageID), OwnSecret{UsageID: usageID},
		func(c *conn, secret *golibvirt.Secret) (*OwnSecret, error) {
			s := &OwnSecret{UsageType: SecretUsageVTPM, UsageID: usageID}
			var calls errgroup.Group
			calls.Go(func() error {
				c.countCall("virSecretGetXMLDesc")
				text, err := secret.GetXMLDesc(0)
				if err != nil {
					return err
				}
				var document secretXML
				if err := xml.Unmarshal([]byte(text), &document); err != nil {
					return fmt.Errorf("%w: a secret's definition can't be read: %w", ErrInternal, err)
				}
				s.UUID, s.Description = document.UUID, document.Description
				return nil
			})
			calls.Go(func() (err error) {
				c.countCall("virSecretGetValue")
				s.Value, err = secret.GetValue(0)
				if errors.Is(err, golibvirt.ERR_NO_SECRET) && c.hasSecret(usageID) {
					// The same error number means that a secret has no value and that the secret doesn't exist.
					return nil
				}
				return err
			})
			if err := calls.Wait(); err != nil {
				return nil, err
			}
			return s, nil
		})
}

// OwnSecretIDs returns the usage ids that begin with the prefix, in one round trip (virConnectListAllSecrets).
func (h *Host) OwnSecretIDs(ctx context.Context, prefix string) ([]string, error) {
	ids, err := call(ctx, h, readCall("listing secrets "+prefix), func(c *conn) ([]string, error) {
		c.countCall("virConnectListAllSecrets")
		all, err := c.c.ListAllSecrets(0)
		if err != nil {
			return nil, err
		}
		var ids []string
		var failures error
		for i := range all {
			// libvirt's client knows both: neither asks the daemon.
			usage, err := all[i].GetUsageType()
			failures = errors.Join(failures, err)
			id, err := all[i].GetUsageID()
			failures = errors.Join(failures, err, all[i].Free())
			if usage == golibvirt.SECRET_USAGE_TYPE_VTPM && strings.HasPrefix(id, prefix) {
				ids = append(ids, id)
			}
		}
		return ids, failures
	})
	return ids, h.withoutSecrets(err)
}

// SetOwnSecretValue writes s.Value to the secret that s names, which must exist (virSecretSetValue).
func (h *Host) SetOwnSecretValue(ctx context.Context, s OwnSecret) error {
	value := append([]byte(nil), s.Value...)
	_, err := onSecret(ctx, h, defineCall("writing secret "+s.UsageID), s,
		func(c *conn, secret *golibvirt.Secret) (struct{}, error) {
			c.countCall("virSecretSetValue")
			return struct{}{}, secret.SetValue(value, 0)
		})
	return err
}

// UndefineOwnSecret removes the secret that s names, and its value (virSecretUndefine).
func (h *Host) UndefineOwnSecret(ctx context.Context, s OwnSecret) error {
	return h.undefineSecret(ctx, s)
}

func (h *Host) undefineSecret(ctx context.Context, s OwnSecret) error {
	_, err := onSecret(ctx, h, defineCall("removing secret "+s.UsageID), s,
		func(c *conn, secret *golibvirt.Secret) (struct{}, error) {
			return struct{}{}, c.undefineSecret(secret)
		})
	return err
}

// onSecret runs f on a secret. It returns ErrNotFound if the host has no such secret.
func onSecret[T any](
	ctx context.Context, h *Host, s callSpec, which OwnSecret, f func(*conn, *golibvirt.Secret) (T, error),
) (T, error) {
	value, err := call(ctx, h, s, func(c *conn) (value T, err error) {
		secret, err := c.lookupSecret(which)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, secret.Free()) }()
		return f(c, secret)
	})
	return value, h.withoutSecrets(err)
}

// withoutSecrets tells a host that should have secrets and has none from libvirt's test driver, whose error stays
// ErrUnsupported: no other run can reach what runs within our own process.
func (h *Host) withoutSecrets(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != ErrUnsupported && e.Kind != ErrNoDriver || //nolint:errorlint // a kind is one of the Err values
		h.target.inProcess {
		return err
	}
	return &Error{
		Host: e.Host, Operation: e.Operation, Code: e.Code, Kind: ErrNoSecretDriver,
		Err: fmt.Errorf("%w: %w", ErrNoSecretDriver, e.Err),
	}
}
