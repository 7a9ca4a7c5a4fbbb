package libvirt

import (
	"context"

	golibvirt "libvirt.org/go/libvirt"
)

// StatsGroups selects groups of statistics, or'ed together; they are numbered as libvirt numbers them.
type StatsGroups uint32

// The groups of statistics. What a host's libvirt doesn't know is left out of its answer.
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
// virConnectGetAllDomainStats. What wasn't reported isn't there.
type StatsParams map[string]any

// Uint gives an unsigned number, nil when it wasn't reported. A negative number counts as not reported.
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

// Text gives a string, "" when it wasn't reported.
func (p StatsParams) Text(name string) string {
	s, _ := p[name].(string)
	return s
}

// Bool gives a truth, nil when it wasn't reported.
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
	// Busy says that the domain is being started, or stands still for a migration: on its target until its memory has
	// arrived, on its source at the end. Then only its state is known, because for any more libvirt would wait, on a
	// target for up to 30 seconds.
	Busy bool
	// Params are the statistics. A domain that doesn't run, or whose hypervisor process is busy, has few.
	Params StatsParams
}

// Stats reads statistics of all domains of the host, or of those with the given UUIDs, in two calls, however many they
// are: one for their states, which never waits, and one for the groups of those that run. A domain whose hypervisor
// process is busy with something else is not waited for; what it would have had to say is left out. A UUID that the
// host doesn't have is left out.
//
// It uses virConnectGetAllDomainStats and virDomainListGetStats.
func (h *Host) Stats(ctx context.Context, groups StatsGroups, uuids ...string) ([]DomainStats, error) {
	return call(ctx, h, monitorCall("reading statistics"), func(c *conn) ([]DomainStats, error) {
		return c.readStats(groups, uuids)
	})
}

// dontWait makes libvirt skip what it would have to wait for.
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
		if len(wanted) > 0 && !wanted[stats.UUID] {
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

// readState takes the state out of the parameters.
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

// DirtyRateMode is how it is measured how fast a domain writes to its memory, by libvirt's name; "" is page-sampling.
type DirtyRateMode string

// The modes. Bitmap and ring came with libvirt 8.1.
const (
	// DirtyRatePageSampling compares samples of pages. Every domain can, and its guest hardly notices.
	DirtyRatePageSampling DirtyRateMode = "page-sampling"
	// DirtyRateBitmap logs what is written to, as a migration does. Under anything but KVM it crashes QEMU.
	DirtyRateBitmap DirtyRateMode = "dirty-bitmap"
	// DirtyRateRing reads KVM's dirty ring, which the definition must enable.
	DirtyRateRing DirtyRateMode = "dirty-ring"
)

var dirtyRateFlags = map[DirtyRateMode]golibvirt.DomainDirtyRateCalcFlags{
	DirtyRatePageSampling: golibvirt.DOMAIN_DIRTYRATE_MODE_PAGE_SAMPLING,
	DirtyRateBitmap:       golibvirt.DOMAIN_DIRTYRATE_MODE_DIRTY_BITMAP,
	DirtyRateRing:         golibvirt.DOMAIN_DIRTYRATE_MODE_DIRTY_RING,
}

// StartDirtyRate makes the hypervisor measure for that many seconds, 1 to 60, how fast a running domain writes to its
// memory (virDomainStartDirtyRateCalc). It returns at once; Stats with StatsDirtyRate says when the measurement is
// done.
func (h *Host) StartDirtyRate(ctx context.Context, uuid string, seconds int, mode DirtyRateMode) error {
	return h.runOnDomain(ctx, jobControlCall("measuring the dirty rate of domain "+uuid), uuid,
		"virDomainStartDirtyRateCalc",
		func(d *golibvirt.Domain) error { return d.StartDirtyRateCalc(seconds, dirtyRateFlags[mode]) })
}
