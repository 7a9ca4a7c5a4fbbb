package inventory

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HasUserSecret reports whether a host has a secret, as of the view: many VMs of a plan ask the same. One that it lacks
// is asked for again, as it may have been created since.
func (v *View) HasUserSecret(ctx context.Context, h *Host, uuid string) (bool, error) {
	return v.userSecrets.getIf(ctx, uuid, func(has bool) bool { return has }, func(ctx context.Context) (bool, error) {
		return hasUserSecret(ctx, h.Conn, uuid)
	})
}

func hasUserSecret(ctx context.Context, h *libvirt.Host, uuid string) (bool, error) {
	_, err := h.UserSecret(ctx, uuid)
	if IsNotFound(err) {
		return false, nil
	}

	return err == nil, err
}

// HasUserSecret reports whether the host that replied has a secret. For a plan, it may be as of the view.
func (a Reply) HasUserSecret(ctx context.Context, planned bool, uuid string) (bool, error) {
	if planned && a.View != nil {
		return a.View.HasUserSecret(ctx, a.Host, uuid)
	}

	return hasUserSecret(ctx, a.Host.Conn, uuid)
}
