package libvirt

import (
	"context"

	golibvirt "libvirt.org/go/libvirt"
)

// StatsGroups is a set of groups of statistics: the bitwise OR of libvirt's numbers for them.
type StatsGroups uint32

// The groups of statistics. A libvirt leaves the groups that it doesn't know out of its answer.
const (
	StatsState     = StatsGroups(golibvirt.DOMAIN_STATS_STATE)
	StatsCPU       = StatsGroups(golibvirt.DOMAIN_STATS_CPU_TOTAL)
	StatsBalloon   = StatsGroups(golibvirt.DOMAIN_STATS_BALLOON)
	StatsVCPU      = StatsGroups(golibvirt.DOMAIN_STATS_VCPU)
	StatsInterface = StatsGroups(golibvirt.DOMAIN_STATS_INTERFACE)
	StatsBlock     = StatsGroups(golibvirt.DOMAIN_STATS_BLOCK)
	StatsPerf      = StatsGroups(golibvirt.DOMAIN_STATS_PERF)
	StatsDirtyRate = StatsGroups(golibvirt.DOMAIN_STATS_DIRTYRATE)
)

// StatsParams are statistics by libvirt's names for them, such as "cpu.time" or "block.0.rd.bytes": see
// virConnectGetAllDomainStats. A statistic that wasn't reported has no entry.
type StatsParams map[string]any

// Uint returns an unsigned number, or nil if it wasn't reported. A negative number counts as not reported.
func (p StatsParams) Uint(name string) *uint64 {
	switch v := p[name].(type) {
	case uint64:
		return &v
	case int64:
		if v >= 0 {
			u := uint64(v)
			return &u
		}
	}
	return nil
}

// Text returns a string, or "" if it wasn't reported.
func (p StatsParams) Text(name string) string {
	s, _ := p[name].(string)
	return s
}

// Bool returns a boolean, or nil if it wasn't reported.
func (p StatsParams) Bool(name string) *bool {
	if v, ok := p[name].(bool); ok {
		return &v
	}
	return nil
}

// DomainStats are the statistics of one domain.
type DomainStats struct {
	UUID, Name string
	State      DomainState
	Reason     string
	// Busy says that the domain is being started, or is paused for a migration: on the target until its memory has
	// arrived, on the source at the end. Only its state is known then: for more, libvirt would wait, on a target for up
	// to 30 seconds.
	Busy bool
	// Params are the statistics. There are few of a domain that doesn't run or whose hypervisor process is busy.
	Params StatsParams
}

// Stats reads the statistics of all domains of the host, or of those with the given UUIDs, in two calls, however many
// there are. The first reads the states, and never waits. The second reads the groups of those that run. It doesn't
// wait for a domain whose hypervisor process is busy, whose groups are left out. UUIDs that the host doesn't have are
// left out.
//
// It uses virConnectGetAllDomainStats and virDomainListGetStats.
func (h *Host) Stats(ctx context.Context, groups StatsGroups, uuids ...string) ([]DomainStats, error) {
	return call(ctx, h, monitorCall("reading statistics"), func(c *conn) ([]DomainStats, error) {
		return c.readStats(groups, uuids)
	})
}

// dontWait makes libvirt skip the statistics for which it would have to wait.
const dontWait = golibvirt.CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT

func (c *conn) readStats(groups StatsGroups, uuids []string) ([]DomainStats, error) {
	wanted := make(map[string]bool, len(uuids))
	for _, uuid := range uuids {
		wanted[uuid] = true
	}
	states, err := c.statsOfAll(StatsState, 0)
	if err != nil {
		return nil, err
	}
	defer states.release()
	var found []DomainStats
	place := map[string]int{}
	ask := states.all()[:0:0]
	for _, record := range states.all() {
		stats := translateRecord(record)
		if len(wanted) > 0 && !wanted[stats.UUID] || isCopier(stats.Name, stats.UUID) {
			continue
		}
		stats.readState()
		if stats.State.Active() && !stats.Busy {
			ask = append(ask, record)
		}
		place[stats.UUID] = len(found)
		found = append(found, stats)
	}
	if len(ask) == 0 || groups&^StatsState == 0 {
		return found, nil
	}
	records, err := c.statsOf(ask, groups|StatsState, dontWait)
	if err != nil {
		return nil, err
	}
	defer records.release()
	for _, record := range records.all() {
		stats := translateRecord(record)
		stats.readState()
		if i, ok := place[stats.UUID]; ok {
			found[i] = stats
		}
	}
	return found, nil
}

// readState reads the state from the parameters.
func (s *DomainStats) readState() {
	if state := s.Params.Uint("state.state"); state != nil {
		s.State = DomainState(*state)
	}
	reason := s.Params.Uint("state.reason")
	if reason != nil {
		s.Reason = reasonName(s.State, int(*reason))
	}
	s.Busy = s.State == Paused && (s.Reason == ReasonMigration || s.Reason == ReasonStartingUp)
}

// DirtyRateMode is the way to measure how fast a domain writes to its memory, by libvirt's name. "" is page-sampling.
type DirtyRateMode string

// The modes. Bitmap and ring came with libvirt 8.1.
const (
	// DirtyRatePageSampling compares samples of pages. It works for every domain, and hardly slows its guest.
	DirtyRatePageSampling DirtyRateMode = "page-sampling"
	// DirtyRateBitmap logs the pages that are written to, as a migration does. Without KVM it crashes QEMU.
	DirtyRateBitmap DirtyRateMode = "dirty-bitmap"
	// DirtyRateRing reads KVM's dirty ring, which the definition must enable.
	DirtyRateRing DirtyRateMode = "dirty-ring"
)

var dirtyRateFlags = map[DirtyRateMode]golibvirt.DomainDirtyRateCalcFlags{
	DirtyRatePageSampling: golibvirt.DOMAIN_DIRTYRATE_MODE_PAGE_SAMPLING,
	DirtyRateBitmap:       golibvirt.DOMAIN_DIRTYRATE_MODE_DIRTY_BITMAP,
	DirtyRateRing:         golibvirt.DOMAIN_DIRTYRATE_MODE_DIRTY_RING,
}

// StartDirtyRate makes the hypervisor measure, for 1 to 60 seconds, how fast a running domain writes to its memory
// (virDomainStartDirtyRateCalc). It returns at once. Stats with StatsDirtyRate tells when the measurement is done.
func (h *Host) StartDirtyRate(ctx context.Context, uuid string, seconds int, mode DirtyRateMode) error {
	return h.runOnDomain(ctx, jobControlCall("measuring the dirty rate of domain "+uuid), uuid,
		"virDomainStartDirtyRateCalc",
		func(d *golibvirt.Domain) error { return d.StartDirtyRateCalc(seconds, dirtyRateFlags[mode]) })
}
