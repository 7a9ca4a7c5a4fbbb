package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// unfinishedPatience is how long hosts are asked for the records of volumes that runs are creating. One that hangs
// doesn't keep the others from being heard.
const unfinishedPatience = 10 * time.Second

// Unfinished is a volume that a run is creating, or was creating when it was interrupted: it may lack a part of its
// content.
type Unfinished struct {
	libvirt.Volume
	// Through is the host on which that is recorded.
	Through string
}

// Ref returns the volume's name.
func (u Unfinished) Ref() Ref { return Ref{Pool: u.Pool, Name: u.Name} }

// String says what is wrong with the volume.
func (u Unfinished) String() string {
	return fmt.Sprintf("volume %q may lack a part of its content: a run is creating it through host %q, or was "+
		"interrupted while it did", u.Ref(), u.Through)
}

// Remedy says what to do about it.
func (u Unfinished) Remedy() string {
	return fmt.Sprintf("If that run is still at work, wait until it has ended. If it was interrupted, repeat it, which "+
		"creates the volume again. If the volume is whole, remove the record: it is the secret %s of \"virsh secret-list\" "+
		"on host %q, and \"virsh secret-undefine <UUID>\" removes it.", u.Ref().creation().UsageID(), u.Through)
}

// Unfinished returns a volume of a host if a run records that it is creating it, see Interrupted; nil if no run does,
// or if that is unknown. It changes nothing.
func (s *Storage) Unfinished(ctx context.Context, host string, v libvirt.Volume) *Unfinished {
	ctx, cancel := context.WithTimeout(ctx, unfinishedPatience)
	defer cancel()
	through, err := s.Interrupted(ctx, host, v)
	if err != nil {
		s.Log.Debug("whether a run is creating a volume is unknown", "host", host, "storage_pool", v.Pool, "volume", v.Name,
			"error", err)
	}
	if through == "" {
		return nil
	}
	return &Unfinished{Volume: v, Through: through}
}

// UnfinishedOn returns the volumes that a host has and of which a run records on one of hosts that it is creating them.
// It changes nothing.
func (s *Storage) UnfinishedOn(ctx context.Context, host string, hosts hostset.Set) (all []Unfinished) {
	h, err := s.host(host)
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	asking, cancel := context.WithTimeout(ctx, unfinishedPatience)
	defer cancel()
	answers := hostset.Ask(asking, hosts, func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
		creating, err := hostset.Creating(ctx, h, creationKind)
		return &creating, err
	})
	for _, a := range hostset.Found(answers) {
		for _, name := range *a.Value {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ref := ParseRef(name)
		if ref == nil {
			continue
		}
		v, err := h.PoolVolume(ctx, ref.Pool, ref.Name)
		if err != nil {
			continue // The host doesn't have it, so it is another host's, or isn't created yet.
		}
		if u := s.Unfinished(ctx, host, *v); u != nil {
			all = append(all, *u)
		}
	}
	return all
}
