package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrOvercommitted says that the volumes of a pool could grow to more than the pool's host allows.
var ErrOvercommitted = errors.New("storage pool overcommitted")

// Demand is what new volumes need of a pool: bytes that they occupy at once, and bytes that they may grow to. A thin
// volume has only the second.
type Demand struct{ Now, Growth uint64 }

// Plus returns both demands together.
func (d Demand) Plus(other Demand) Demand {
	return Demand{Now: saturated(d.Now, other.Now), Growth: saturated(d.Growth, other.Growth)}
}

func saturated(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// Room is what a pool has room for.
type Room struct {
	// Capacity is the pool's size, Available what nothing occupies yet.
	Capacity, Available uint64
	// Growth is what the pool's volumes may grow to, all together. It is known if Factor isn't 0.
	Growth uint64
	// Factor limits Growth to this many times Capacity. 0 is no limit.
	Factor float64
}

// Limit returns what the pool's volumes may grow to, all together.
func (r Room) Limit() uint64 {
	limit := float64(r.Capacity) * r.Factor
	if r.Factor == 0 || limit >= math.MaxUint64 {
		return math.MaxUint64
	}
	return uint64(limit)
}

// Left returns what may still be added to Growth.
func (r Room) Left() uint64 { return r.Limit() - min(r.Limit(), r.Growth) }

// Lacks returns why the pool has no room for new volumes, in addition to others that aren't there yet; "" if it has.
// size writes a number of bytes.
func (r Room) Lacks(d, others Demand, size func(uint64) string) string {
	all := d.Plus(others)
	switch {
	case all.Now > r.Available:
		why := fmt.Sprintf("has %s left, and %s are needed at once", size(r.Available), size(d.Now))
		if others.Now > 0 {
			why += fmt.Sprintf(", in addition to %s for disks that are being created or copied there", size(others.Now))
		}
		return why
	case all.Growth > r.Left():
		return fmt.Sprintf("has %s. With storage_overprovisioning_factor = %s the limit is %s. Together its volumes could "+
			"already reach %s, and %s would be added", size(r.Capacity), strconv.FormatFloat(r.Factor, 'g', -1, 64),
			size(r.Limit()), size(saturated(r.Growth, others.Growth)), size(d.Growth))
	default:
		return ""
	}
}

// Exceeded returns that the pool's volumes, with others that aren't there yet, could grow to more than the limit; "" if
// they can't. size writes a number of bytes.
func (r Room) Exceeded(others Demand, size func(uint64) string) string {
	all := saturated(r.Growth, others.Growth)
	if r.Factor == 0 || all <= r.Limit() {
		return ""
	}
	return fmt.Sprintf("has %s. With storage_overprovisioning_factor = %s the limit is %s. Together its volumes could "+
		"reach %s, because another run has made some at the same time", size(r.Capacity),
		strconv.FormatFloat(r.Factor, 'g', -1, 64), size(r.Limit()), size(all))
}

// growthOf returns what volumes may grow to, all together, without those whose names are removed: the sizes that guests
// see. A volume that other volumes are based on, or an image's copy, is never written to, and counts with the size of
// its file.
func growthOf(volumes []libvirt.Volume, removed ...string) uint64 {
	base := map[string]bool{}
	for _, v := range volumes {
		base[v.Backing] = v.Backing != ""
	}
	var sum uint64
	for _, v := range volumes {
		switch {
		case v.Type == "dir" || v.Type == "netdir" || slices.Contains(removed, v.Name):
		case base[v.Path] || Ref{Name: v.Name}.NamedByContent():
			sum = saturated(sum, max(v.PhysicalBytes, v.AllocationBytes))
		default:
			sum = saturated(sum, max(v.CapacityBytes, v.AllocationBytes))
		}
	}
	return sum
}

// RoomOf returns what an active pool of a host has room for, once the volumes whose names are removed are gone. It
// calls list for the pool's volumes only if factor limits what they may grow to, or if volumes are removed.
func RoomOf(
	ctx context.Context, list Listing, pool *libvirt.StoragePool, factor float64, removed ...string,
) (Room, error) {
	r := Room{Capacity: pool.CapacityBytes, Available: pool.AvailableBytes}
	limited := factor > 0 && pool.CapacityBytes > 0
	if pool.CapacityBytes == 0 { // libvirt doesn't know the size of every pool, as of Ceph that reports no statistics.
		r.Available = math.MaxUint64
	}
	if !limited && len(removed) == 0 {
		return r, nil
	}
	volumes, err := list(ctx, pool.Name)
	if limited {
		r.Factor, r.Growth = factor, growthOf(volumes, removed...)
	}
	for _, v := range volumes {
		if slices.Contains(removed, v.Name) {
			r.Available = saturated(r.Available, v.AllocationBytes)
		}
	}
	return r, err
}

// Listing lists the volumes of a host's pool.
type Listing func(ctx context.Context, pool string) ([]libvirt.Volume, error)

// seenVolumes lists a host's volumes as of the last reading of the host, or reads them if there was none.
func seenVolumes(h hostset.Host) Listing {
	if h.SeenVolumes != nil {
		return h.SeenVolumes
	}
	return h.Conn.PoolVolumes
}

// CheckRoom returns ErrNoSpace or ErrOvercommitted if a host's pool has no room for what is planned, even once the
// volumes whose names are removed are gone, and ErrUnmounted if its filesystem isn't mounted. It uses what is known of
// the pool's volumes from the last reading of the host. A pool that doesn't exist or isn't active has no room to check.
func (s *Storage) CheckRoom(ctx context.Context, host, pool string, d Demand, removed ...string) error {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced {
		return nil
	}
	list := seenVolumes(h)
	err := checkRoom(ctx, h, list, pool, d)
	if len(removed) > 0 && (errors.Is(err, ErrNoSpace) || errors.Is(err, ErrOvercommitted)) {
		return checkRoom(ctx, h, list, pool, d, removed...)
	}
	return err
}

func checkRoom(
	ctx context.Context, h hostset.Host, list Listing, pool string, d Demand, removed ...string,
) error {
	p, err := h.Conn.StoragePool(ctx, pool)
	switch {
	case errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrNoPool):
		return nil
	case err != nil || !p.Active:
		return err
	}
	if err := CheckMounted(ctx, h, p); err != nil {
		return err
	}
	if is, err := ReadPool(p.XML); err == nil && is.kind().thick {
		d.Now = max(d.Now, d.Growth)
	}
	r, err := RoomOf(ctx, list, p, h.OverprovisioningFactor, removed...)
	if err != nil {
		return err
	}
	return r.refuse(h.Name, pool, d)
}

func (r Room) refuse(host, pool string, d Demand) error {
	why := r.Lacks(d, Demand{}, func(bytes uint64) string { return fmt.Sprintf("%d bytes", bytes) })
	kind := ErrOvercommitted
	if d.Now > r.Available {
		kind = ErrNoSpace
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: storage pool %q on host %q %s", kind, pool, host, why)
}

// explainFull returns ErrNoSpace with what the pool has left if err says that the host's disk is full: something else
// occupied the space after the pool was checked, or the pool has less than it reports. need is 0 if it is unknown.
func explainFull(ctx context.Context, h *libvirt.Host, pool string, need uint64, err error) error {
	if !errors.Is(err, libvirt.ErrDiskFull) || errors.Is(err, ErrNoSpace) {
		return err
	}
	looking, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	_ = refresh(looking, h, pool)
	p, readErr := h.StoragePool(looking, pool)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	needed := ""
	switch {
	case need > p.AvailableBytes:
		needed = fmt.Sprintf(", and %d are needed", need)
	case need > 0: // A copy may occupy more than its source, which can be compressed.
		needed = fmt.Sprintf(", and more than %d were needed", need)
	}
	return fmt.Errorf("%w: storage pool %q on host %q became full meanwhile. It has %d bytes left now%s: %w", ErrNoSpace,
		pool, h.Name(), p.AvailableBytes, needed, err)
}

// taking creates or grows a volume with f if the pool is mounted and has room for it. While the host limits what
// volumes may grow to, one run at a time does that in a pool: volumes that fit alone may be too much together.
func (s *Storage) taking(
	ctx context.Context, host, pool string, d Demand, f func(context.Context) error,
) error {
	h, _ := s.Hosts.Host(host)
	if _, err := s.host(host); err != nil {
		return err
	}
	if h.OverprovisioningFactor == 0 {
		if d.Now > 0 {
			if err := s.Freshen(ctx, host, pool); err != nil {
				return err
			}
		}
		if err := checkRoom(ctx, h, h.Conn.PoolVolumes, pool, Demand{Now: d.Now}); err != nil {
			return err
		}
		return f(ctx)
	}
	held, release, err := s.LockRoom(ctx, host, pool, "creating or growing a volume in")
	if err != nil {
		return err
	}
	defer release()
	if err := checkRoom(held, h, h.Conn.PoolVolumes, pool, d); err != nil {
		return err
	}
	return f(held)
}

// LockRoom keeps other runs from creating or growing volumes in a pool of a host that limits what volumes may grow to,
// until release is called. Then it refreshes the pool: another host may have created volumes in a shared pool.
func (s *Storage) LockRoom(
	ctx context.Context, host, pool, purpose string,
) (held context.Context, release func(), err error) {
	h, _ := s.Hosts.Host(host)
	on, err := s.roomLock(ctx, h, pool)
	if err != nil {
		return nil, nil, err
	}
	held, release, err = s.Lock(ctx, on, "storage-pool:"+pool, purpose)
	if err != nil {
		return nil, nil, err
	}
	if err := refresh(held, h.Conn, pool); err != nil {
		release()
		return nil, nil, err
	}
	return held, release, nil
}

// CheckRoomLock returns why LockRoom would fail now.
func (s *Storage) CheckRoomLock(ctx context.Context, host, pool string) error {
	h, _ := s.Hosts.Host(host)
	_, err := s.roomLock(ctx, h, pool)
	return err
}

// roomLock returns the host that has the lock of a configured host's pool.
func (s *Storage) roomLock(ctx context.Context, h hostset.Host, pool string) (on string, err error) {
	if _, err := s.host(h.Name); err != nil {
		return "", err
	}
	return s.lockingHost(ctx, h, pool)
}

// lockingHost returns the host that has the lock of a pool. For a pool that hosts share, it is the first of these hosts
// by name, whichever of them answer: runs that took the lock on different hosts would not exclude each other.
func (s *Storage) lockingHost(ctx context.Context, h hostset.Host, pool string) (string, error) {
	hosts, err := s.UserHosts(ctx, h.Name, pool)
	if err != nil || len(hosts) == 1 {
		return h.Name, err
	}
	for _, a := range PoolOn(ctx, hosts, pool) {
		switch {
		case a.Err != nil:
			return "", fmt.Errorf("storage pool %q is shared, and host %q, which may have the lock that keeps runs from "+
				"overcommitting it, can't be asked: %w. Bring the host back. Or make sure that it is off, then set its "+
				"fenced = true", pool, a.Host, a.Err)
		case a.Value != nil && a.Value.Shared:
			return a.Host, nil
		}
	}
	return h.Name, nil
}

// SamePool reports whether hosts have the same volumes in the pool of that name: whether they are one host, or share
// the pool.
func (s *Storage) SamePool(ctx context.Context, pool, host, other string) bool {
	if host == other {
		return true
	}
	both := hostset.Found(PoolOn(ctx, s.Hosts.Named(host, other), pool))
	return len(both) == 2 && both[0].Value.Shared && both[1].Value.Shared
}
