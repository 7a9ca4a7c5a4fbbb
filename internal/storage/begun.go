package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// extent is the size by which a volume may be larger than asked for: pools round sizes up, a volume group to its
// extents, which have this size unless it was created with another one.
const extent = 4 << 20

// emptyBytes is more than a thin volume occupies before anything is written to it: the tables of an image, and the
// header of LUKS.
const emptyBytes = 4 << 20

// recordAge is how long a volume is removed because of the record of its creation: since the creation began, or since
// the last run gave up waiting. A volume has no identity that could be recorded before it exists, so the longer a
// record is there, the likelier a volume of the name is another one.
const recordAge = time.Hour

// begun is what a host records about a volume that is being created.
type begun struct {
	// Began is when the creation began, by the clock of the operator's side.
	Began time.Time `json:"began,omitzero"`
	// GivenUp is when the last run gave up waiting for libvirt, which may have continued.
	GivenUp time.Time `json:"given_up,omitzero"`
	Format  string    `json:"format"`
	Bytes   uint64    `json:"bytes"`
	// SourceBytes is the size of a clone before it is resized.
	SourceBytes uint64 `json:"source_bytes,omitzero"`
	Encrypted   bool   `json:"encrypted,omitzero"`
	// Misread says that libvirt takes what is copied, and so the copy, for something else than Format.
	Misread bool `json:"misread,omitzero"`
	// Empty says that the volume occupies almost nothing until a guest writes to it.
	Empty bool `json:"empty,omitzero"`
}

func newBegun(d Disk, source *libvirt.Volume) begun {
	b := begun{Began: time.Now().UTC(), Format: d.Format, Bytes: d.Bytes, Encrypted: d.Secret != ""}
	b.Misread = d.misread > 0
	if d.Clone != nil {
		b.SourceBytes = source.CapacityBytes
	}
	b.Empty = d.Clone == nil && (d.Preallocation == "" || d.Preallocation == PreallocationOff)
	return b
}

// isRecent reports whether a volume that matches the record is taken for what a killed run has left.
func (b begun) isRecent() bool {
	return time.Since(b.Began).Abs() < recordAge || time.Since(b.GivenUp).Abs() < recordAge
}

// matches reports whether a volume can be what a killed run has left: it can't if something about the volume differs,
// or if it has data that the run didn't write.
func (b begun) matches(v libvirt.Volume) bool {
	if b.Misread {
		v = v.UsedAs(b.Format)
	}
	if v.Type == "file" && v.CapacityBytes == 0 && v.PhysicalBytes == 0 && v.AllocationBytes == 0 {
		return true // An empty file is what a program has left that failed at its beginning.
	}
	return (roundedUp(b.Bytes, v.CapacityBytes) || roundedUp(b.SourceBytes, v.CapacityBytes)) &&
		v.Encrypted == b.Encrypted && (b.Encrypted || v.HasFormat(b.Format)) &&
		(!b.Empty || v.AllocationBytes <= emptyBytes)
}

func roundedUp(bytes, to uint64) bool { return bytes != 0 && to >= bytes && to-bytes < extent }

// creationKind is the kind of volumes in a hostset.Creation.
const creationKind = "volume"

func (r Ref) creation() hostset.Creation {
	return hostset.Creation{Kind: creationKind, Name: r.String()}
}

// recorded returns what a run recorded on a host about a volume that it was creating, and nil if there is no record.
func recorded(ctx context.Context, h *libvirt.Host, ref Ref) (*begun, error) {
	text, err := ref.creation().Begun(ctx, h)
	if err != nil || text == "" {
		return nil, err
	}
	b := &begun{}
	if err := json.Unmarshal([]byte(text), b); err != nil {
		return nil, fmt.Errorf("%w: a record of volume %s can't be read: %w", libvirt.ErrInternal, ref, err)
	}
	return b, nil
}

// Interrupted returns the host through which a run was creating a volume of a host when it was interrupted, "" if the
// volume isn't known to be what that run has left: it may lack a part of its content. CreateVolume removes it, through
// that host, if the record is recent. Of a pool that hosts share, each of them may have the record: an UnaskedError
// names those that can't tell.
func (s *Storage) Interrupted(ctx context.Context, host string, v libvirt.Volume) (through string, err error) {
	hosts, err := s.UserHosts(ctx, host, v.Pool)
	if err != nil {
		return "", err
	}
	unasked := &UnaskedError{Hosts: map[string]error{}}
	for _, a := range hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*begun, error) {
		return recorded(ctx, h, Ref{Pool: v.Pool, Name: v.Name})
	}) {
		switch {
		case a.Value != nil && a.Value.matches(v):
			return a.Host, nil
		case a.Err == nil, a.Host != host && errors.Is(a.Err, libvirt.ErrNoSecretDriver): // There, no run records anything.
		default:
			unasked.Hosts[a.Host] = a.Err
		}
	}
	if len(unasked.Hosts) > 0 {
		return "", unasked
	}
	return "", nil
}

// UnaskedError says that hosts couldn't be asked whether a run is creating a volume through them.
type UnaskedError struct {
	// Hosts are these hosts, and why they couldn't be asked.
	Hosts map[string]error
}

func (e *UnaskedError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the errors of all hosts, in the order of their names.
func (e *UnaskedError) Unwrap() (all []error) {
	for _, host := range slices.Sorted(maps.Keys(e.Hosts)) {
		all = append(all, e.Hosts[host])
	}
	return all
}

// beginVolume records that the volume is being created, and removes what a killed run has left of it: the volume may
// lack a part of its content. It returns libvirt.ErrExists for any other volume, and for one that is in use.
func (s *Storage) beginVolume(ctx context.Context, h *libvirt.Host, d Disk, source *libvirt.Volume) error {
	ref := Ref{Pool: d.Pool, Name: d.Name}
	before, err := recorded(ctx, h, ref)
	if err != nil {
		return err
	}
	recent := before != nil && before.isRecent() // The wait doesn't make it older.
	if before != nil {
		// QEMU is still copying for the killed run if libvirtd was killed, too.
		if err := h.EndCopier(ctx, d.Pool, d.Name); err != nil {
			return err
		}
		// libvirt may still be copying for the killed run, for as long as the copy takes.
		if err := s.awaitIdle(ctx, h, d.Pool); err != nil {
			if recent {
				s.giveUp(ctx, h, ref, *before)
			}
			return err
		}
	}
	// A volume that the pool doesn't know yet isn't this run's, so nothing is recorded about it.
	if err := refresh(ctx, h, d.Pool); err != nil {
		return err
	}
	v, err := h.PoolVolume(ctx, d.Pool, d.Name)
	switch {
	case err == nil && before != nil:
		err = s.removeLeft(ctx, h, *before, recent, *v)
	case err == nil:
		err = errVolumeExists(d)
	case errors.Is(err, libvirt.ErrNotFound):
		err = nil
	}
	if err != nil {
		return err
	}
	return newBegun(d, source).record(ctx, h, ref)
}

func (b begun) record(ctx context.Context, h *libvirt.Host, ref Ref) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return ref.creation().Begin(ctx, h, string(text))
}

// giveUp records that a run gave up waiting for a volume that libvirt may be creating: the next one continues, however
// long the wait was.
func (s *Storage) giveUp(ctx context.Context, h *libvirt.Host, ref Ref, b begun) {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	b.GivenUp = time.Now().UTC()
	if err := b.record(ctx, h, ref); err != nil {
		s.Log.Warn("the record that a volume is being created was not renewed", "host", h.Name(), "storage_pool", ref.Pool,
			"volume", ref.Name, "error", err)
	}
}

// CheckNew returns libvirt.ErrExists if a host's pool knows a volume of the name that CreateVolume would refuse: not
// one that a run has recorded to be creating, which may have been killed.
func (s *Storage) CheckNew(ctx context.Context, host string, ref Ref) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if _, err := h.PoolVolume(ctx, ref.Pool, ref.Name); err != nil {
		return err
	}
	if before, err := recorded(ctx, h, ref); err != nil || before != nil {
		return err
	}
	return errVolumeExists(Disk{Pool: ref.Pool, Name: ref.Name})
}

func errVolumeExists(d Disk) error {
	return fmt.Errorf("%w: storage pool %q has a volume %q", libvirt.ErrExists, d.Pool, d.Name)
}

// removeLeft removes a volume that a killed run has left, if the record of that run was recent.
func (s *Storage) removeLeft(
	ctx context.Context, h *libvirt.Host, before begun, recent bool, v libvirt.Volume,
) error {
	ref := Ref{Pool: v.Pool, Name: v.Name}
	exists := errVolumeExists(Disk{Pool: v.Pool, Name: v.Name})
	if !before.matches(v) {
		s.endVolume(ctx, h, ref) // It says nothing about this volume, and must not when the volume has changed.
		return fmt.Errorf("%w, which isn't known to be the one that an interrupted run was creating at %s", exists,
			before.Began.Format(time.RFC3339))
	}
	if !recent { // The record stays: it keeps the volume from being imported.
		return fmt.Errorf("%w: storage pool %q has a volume %q that a run was creating at %s when it was interrupted. It "+
			"may lack a part of its content, or be another one since then. Look at it. Then remove it with virsh vol-delete, "+
			"or, if it is whole, remove the record, which is the secret %s of virsh secret-list, with virsh secret-undefine",
			libvirt.ErrOperationInvalid, v.Pool, v.Name, before.Began.Format(time.RFC3339), ref.creation().UsageID())
	}
	hosts, err := s.UserHosts(ctx, h.Name(), v.Pool)
	if err != nil {
		return err
	}
	users, err := s.Users(ctx, hosts, v)
	switch {
	case err != nil:
		return fmt.Errorf("storage pool %q has a volume %q that an interrupted run has left: can't determine whether it is "+
			"in use: %w", v.Pool, v.Name, err)
	case len(users) > 0:
		return fmt.Errorf("%w: %s", exists, users[0])
	}
	if err := checkRemoval(ctx, h, ref); err != nil {
		return err
	}
	s.Log.Info("creating a volume again that an interrupted run has left", "host", h.Name(), "storage_pool", v.Pool,
		"volume", v.Name)
	return h.DeleteVolume(ctx, v.Pool, v.Name)
}

// EndCreation removes what an interrupted creation of a volume may have recorded on a host that has the volume. If that
// fails, the log has a warning.
func (s *Storage) EndCreation(ctx context.Context, host string, ref Ref) {
	if h, err := s.host(host); err == nil {
		s.endVolume(ctx, h, ref)
	}
}

// endFailedVolume removes the record of a creation that has failed. If a part of the volume may be left, it renews the
// record.
func (s *Storage) endFailedVolume(ctx context.Context, h *libvirt.Host, ref Ref) {
	looking, cancel := hostset.CleanupOn(ctx, h)
	defer cancel()
	// libvirt forgets a volume that it couldn't create, although a part of the file may be there.
	if _, err := refreshedVolume(looking, h, ref); errors.Is(err, libvirt.ErrNotFound) {
		s.endVolume(ctx, h, ref)
	} else if b, err := recorded(looking, h, ref); b != nil && err == nil {
		s.giveUp(ctx, h, ref, *b)
	}
}

// endVolume removes the record of a volume's creation. A record that stays would let a later creation remove a volume
// of the same name.
func (s *Storage) endVolume(ctx context.Context, h *libvirt.Host, ref Ref) {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	if err := ref.creation().End(ctx, h); err != nil {
		s.Log.Warn("the record that a volume is being created was not removed", "host", h.Name(), "storage_pool", ref.Pool,
			"volume", ref.Name, "error", err)
	}
}
