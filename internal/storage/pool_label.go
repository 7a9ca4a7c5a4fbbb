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
	directory, label, err := p.labelOn(ctx, h)
	if err != nil || label == *p.Label {
		return err
	}
	switch {
	case !slices.Contains(info.SecurityModels, "selinux"):
		return fmt.Errorf("%w: it has no security driver selinux, so %q can't be the label of a directory there",
			libvirt.ErrUnsupported, *p.Label)
	case directory == "": // SELinux labels a new directory by its own rules.
		return nil
	case label == "":
		return fmt.Errorf("%w: directory %q has no label, and libvirt doesn't set %q", libvirt.ErrUnsupported, directory,
			*p.Label)
	default:
		return fmt.Errorf("%w: directory %q has the label %q, and libvirt doesn't set %q", libvirt.ErrUnsupported, directory,
			label, *p.Label)
	}
}

// labelOn returns the directory of the pool on the host and its label; "" and "" unless an active pool of that name is
// in the directory that p declares.
func (p Pool) labelOn(ctx context.Context, h *libvirt.Host) (directory, label string, err error) {
	pool, err := h.StoragePool(ctx, p.Name)
	if errors.Is(err, libvirt.ErrNotFound) || err == nil && !pool.Active {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	is, err := ReadPool(pool.LiveXML)
	if err != nil || !samePath(is.Directory(), p.Directory()) {
		return "", "", err
	}
	if is.Label != nil {
		label = *is.Label
	}
	return is.Directory(), label, nil
}
