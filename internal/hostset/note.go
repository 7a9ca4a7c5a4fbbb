package hostset

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Note is a text that runs leave on a host for other runs. It is the value of a libvirt secret. libvirt's test driver,
// which has no secrets, keeps none.
type Note struct {
	// UsageID is the usage of the secret, by which "virsh secret-list" shows it. Description says what the note is.
	UsageID, Description string
}

// Read returns the text, and "" if there is no note.
func (n Note) Read(ctx context.Context, h *libvirt.Host) (string, error) {
	s, err := h.OwnSecret(ctx, n.UsageID)
	switch {
	case errors.Is(err, libvirt.ErrNotFound), errors.Is(err, libvirt.ErrUnsupported):
		return "", nil
	case err != nil:
		return "", err
	default:
		return string(s.Value), nil
	}
}

// Write leaves the text, in place of an earlier one.
func (n Note) Write(ctx context.Context, h *libvirt.Host, text string) error {
	s := libvirt.OwnSecret{UsageID: n.UsageID, Description: n.Description, Value: []byte(text)}
	err := h.DefineOwnSecret(ctx, s)
	switch {
	case errors.Is(err, libvirt.ErrUnsupported):
		return nil
	case errors.Is(err, libvirt.ErrExists):
		return h.SetOwnSecretValue(ctx, s)
	default:
		return err
	}
}

// Remove removes the note.
func (n Note) Remove(ctx context.Context, h *libvirt.Host) error {
	err := h.UndefineOwnSecret(ctx, libvirt.OwnSecret{UsageID: n.UsageID})
	if errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrUnsupported) {
		return nil
	}
	return err
}
