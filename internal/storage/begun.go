package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// emptyBytes is more than a thin volume occupies before anything is written to it: the tables of an image, and the
// header of LUKS.
const emptyBytes = 4 << 20

// begun is what a host records about a volume that is being created. A volume has no identity that could be recorded
// before it exists.
type begun struct {
	Format string `json:"format"`
	Bytes  uint64 `json:"bytes"`
	// SourceBytes is the size of a clone before it is resized.
	SourceBytes uint64 `json:"source_bytes,omitzero"`
	Encrypted   bool   `json:"encrypted,omitzero"`
	// Empty says that the volume occupies almost nothing until a guest writes to it.
	Empty bool `json:"empty,omitzero"`
}

func newBegun(d Disk, source *libvirt.Volume) begun {
	b := begun{Format: d.Format, Bytes: d.Bytes, Encrypted: d.Secret != ""}
	if d.Clone != nil {
		b.SourceBytes = source.CapacityBytes
	}
	b.Empty = d.Clone == nil && (d.Preallocation == "" || d.Preallocation == PreallocationOff)
	return b
}

// left reports whether a volume can be what a killed run has left: it can't if something about it differs, or if it has
// data that the run didn't write.
func (b begun) left(v libvirt.Volume) bool {
	return (v.CapacityBytes == b.Bytes || v.CapacityBytes == b.SourceBytes) && v.Encrypted == b.Encrypted &&
		(b.Encrypted || v.Format == b.Format) && (!b.Empty || v.AllocationBytes <= emptyBytes)
}

func (d *Disk) creation() hostset.Creation {
	return hostset.Creation{Kind: "volume", Name: d.Pool + "/" + d.Name}
}

// beginVolume records that the volume is being created, and removes what a killed run has left of it: the volume may
// lack a part of its content. It returns libvirt.ErrExists for any other volume, and for one that is in use.
func (s *Storage) beginVolume(ctx context.Context, h *libvirt.Host, d Disk, source *libvirt.Volume) error {
	record := d.creation()
	text, err := record.Begun(ctx, h)
	if err != nil {
		return err
	}
	var before begun
	if text != "" {
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			return fmt.Errorf("%w: a record of volume %s/%s can't be read: %w", libvirt.ErrInternal, d.Pool, d.Name, err)
		}
		// libvirt may still be copying for the killed run.
		if err := s.settle(ctx, h, d.Pool); err != nil {
			return err
		}
	}
	v, err := h.PoolVolume(ctx, d.Pool, d.Name)
	switch {
	case err == nil && text != "":
		err = s.removeLeft(ctx, h, before, *v)
	case err == nil:
		err = errVolumeExists(d)
	case errors.Is(err, libvirt.ErrNotFound):
		err = nil
	}
	if err != nil {
		return err
	}
	now, err := json.Marshal(newBegun(d, source))
	if err != nil {
		return err
	}
	return record.Begin(ctx, h, string(now))
}

func errVolumeExists(d Disk) error {
	return fmt.Errorf("%w: storage pool %q has a volume %q", libvirt.ErrExists, d.Pool, d.Name)
}

// removeLeft removes a volume that a killed run has left.
func (s *Storage) removeLeft(ctx context.Context, h *libvirt.Host, before begun, v libvirt.Volume) error {
	exists := errVolumeExists(Disk{Pool: v.Pool, Name: v.Name})
	if !before.left(v) {
		return fmt.Errorf("%w, which isn't the one that an interrupted run was creating", exists)
	}
	hosts, err := s.UserHosts(ctx, h.Name(), v.Pool)
	if err != nil {
		return err
	}
	users, err := s.Users(ctx, hosts, v)
	switch {
	case err != nil:
		return fmt.Errorf("%w, and it can't be told whether it is in use: %w", exists, err)
	case len(users) > 0:
		return fmt.Errorf("%w: %s", exists, users[0])
	}
	s.Log.Info("creating a volume again that an interrupted run has left", "host", h.Name(), "storage_pool", v.Pool,
		"volume", v.Name)
	return h.DeleteVolume(ctx, v.Pool, v.Name)
}

// endVolume removes the record, unless the creation failed and a part of the volume may be left.
func (s *Storage) endVolume(ctx context.Context, h *libvirt.Host, d Disk, failure error) {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	if failure != nil {
		if _, err := h.PoolVolume(ctx, d.Pool, d.Name); !errors.Is(err, libvirt.ErrNotFound) {
			return
		}
	}
	if err := d.creation().End(ctx, h); err != nil {
		s.Log.Debug("the record of a creation was not removed", "host", h.Name(), "volume", d.Name, "error", err)
	}
}
