package storage

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// sharedMark with the name of a pool is the usage id of a secret which says that every host sees the same volumes in
// the pool: libvirt has no place for that.
const sharedMark = "virtfleet:shared-pool:"

func hasMark(ctx context.Context, h *libvirt.Host, usageID string) (bool, error) {
	_, err := h.SecretByUsage(ctx, "vtpm", usageID)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, libvirt.ErrNotFound), errors.Is(err, libvirt.ErrUnsupported):
		return false, nil
	default:
		return false, err
	}
}

func setMark(ctx context.Context, h *libvirt.Host, usageID string, on bool) error {
	is, err := hasMark(ctx, h, usageID)
	if err != nil || is == on {
		return err
	}
	which := libvirt.OwnSecret{UsageID: usageID, Description: "virtfleet: a mark", Value: []byte("{}")}
	if on {
		if err = h.DefineOwnSecret(ctx, which); errors.Is(err, libvirt.ErrExists) {
			return nil
		}
		return err
	}
	if err = h.UndefineOwnSecret(ctx, which); errors.Is(err, libvirt.ErrNotFound) {
		return nil
	}
	return err
}
