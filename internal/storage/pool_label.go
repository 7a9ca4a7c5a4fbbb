package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CheckLabel returns an error if the directory of the pool has another SELinux label on the host than the declared one,
// or can't have any. libvirt sets none: it reports the one of the directory while the pool is active. The labels of
// other pools stay in the definition, as they are declared.
func (p Pool) CheckLabel(ctx context.Context, h *libvirt.Host) error {
	if p.Label == nil || !p.kind().buildsDirectory || p.kind().mounts || !h.HasFiles() {
		return nil
	}
	info, err := h.Info(ctx)
	if err != nil {
		return err
	}
	var is Pool
	pool, err := h.StoragePool(ctx, p.Name)
	switch {
	case err == nil && pool.Active:
		read, err := ReadPool(pool.LiveXML)
		if err != nil {
			return err
		}
		is = *read
	case err != nil && !errors.Is(err, libvirt.ErrNotFound):
		return err
	}
	known := is.Directory() != "" && samePath(is.Directory(), p.Directory())
	switch {
	case known && is.Label != nil && *is.Label == *p.Label:
		return nil
	case !slices.Contains(info.SecurityModels, "selinux"):
		return fmt.Errorf("%w: it has no security driver selinux, so %q can't be the label of a directory there",
			libvirt.ErrUnsupported, *p.Label)
	case !known: // SELinux labels a new directory by its own rules.
		return nil
	case is.Label == nil:
		return fmt.Errorf("%w: directory %q has no label, and libvirt doesn't set %q", libvirt.ErrUnsupported,
			is.Directory(), *p.Label)
	default:
		return fmt.Errorf("%w: directory %q has the label %q, and libvirt doesn't set %q", libvirt.ErrUnsupported,
			is.Directory(), *is.Label, *p.Label)
	}
}
