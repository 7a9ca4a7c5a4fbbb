package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// unfinishedPatience is how long hosts are asked for the records of volumes that runs are creating. One that hangs
// doesn't keep the others from being heard.
const unfinishedPatience = 10 * time.Second

// ErrIncompleteInTime says that the time was over while a volume was created that takes long. The next attempt creates
// it again: libvirt, which continues, doesn't tell whether it completes it.
var ErrIncompleteInTime = errors.New("the volume isn't complete")

// explainLate adds ErrIncompleteInTime to the error of a volume to the whole of which content is written.
func (d *Disk) explainLate(err error) error {
	if (d.Clone != nil || Thick(d.Preallocation)) && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrIncompleteInTime, err)
	}
	return err
}

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

// CreatingOn returns the names of the volumes that runs record on hosts as being created, each with the hosts that
// record it. It changes nothing.
func CreatingOn(ctx context.Context, hosts hostset.Set) map[string][]string {
	ctx, cancel := context.WithTimeout(ctx, unfinishedPatience)
	defer cancel()
	recorded := map[string][]string{}
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
		creating, err := hostset.Creating(ctx, h, creationKind)
		return &creating, err
	})
	for _, a := range hostset.Found(answers) {
		for _, name := range *a.Value {
			recorded[name] = append(recorded[name], a.Host)
		}
	}
	return recorded
}

// UnfinishedAmong returns a volume that a host has, that is accepts, and of which a run records that it is creating it;
// nil if there is none. recorded has the names of such volumes, each with the hosts that record it, which alone are
// asked about it. It changes nothing.
func (s *Storage) UnfinishedAmong(
	ctx context.Context, host string, recorded map[string][]string, is func(libvirt.Volume) bool,
) *Unfinished {
	h, err := s.host(host)
	if err != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(recorded))
	volumes := make([]*libvirt.Volume, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		if ref := ParseRef(name); ref != nil {
			// If the host doesn't have it, it is another host's, or isn't created yet.
			wg.Go(func() { volumes[i], _ = h.PoolVolume(ctx, ref.Pool, ref.Name) })
		}
	}
	wg.Wait()
	for i, v := range volumes {
		if v == nil || !is(*v) {
			continue
		}
		if u := s.among(append(recorded[names[i]], host)...).Unfinished(ctx, host, *v); u != nil {
			return u
		}
	}
	return nil
}

// among returns the storage of the hosts of these names alone.
func (s *Storage) among(names ...string) *Storage {
	some := *s
	some.Hosts = s.Hosts.Named(names...)
	return &some
}
