package stats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrMigrating says that a measurement would disturb a migration.
var ErrMigrating = errors.New("not measured during a migration")

// Conn is the host that runs the VM.
type Conn interface {
	Stats(ctx context.Context, groups libvirt.StatsGroups, uuids ...string) ([]libvirt.DomainStats, error)
	Job(ctx context.Context, uuid string) (*libvirt.Job, error)
	StartDirtyRate(ctx context.Context, uuid string, seconds int, mode libvirt.DirtyRateMode) error
}

const (
	// measured is VIR_DOMAIN_DIRTYRATE_MEASURED.
	measured = 2
	// dirtyRatePoll is the interval at which a measurement that should have ended is checked.
	dirtyRatePoll = 200 * time.Millisecond
	// dirtyRatePatience is how much longer than requested a measurement may take.
	dirtyRatePatience = 30 * time.Second
)

// DirtyRate measures how many bytes of its memory a running VM writes to per second. It measures for that long, rounded
// to seconds, from 1 to 60. In all modes, memory that is written twice in that time counts once; libvirt rounds to MiB.
// It returns ErrMigrating during a migration, even one that begins during the measurement, and libvirt's own error if a
// measurement is already in progress or the VM doesn't support the mode.
func DirtyRate(
	ctx context.Context, conn Conn, uuid string, over time.Duration, mode libvirt.DirtyRateMode,
) (uint64, error) {
	if err := requireIdle(ctx, conn, uuid); err != nil {
		return 0, err
	}
	seconds := int(math.Round(min(max(over.Seconds(), 1), 60)))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+dirtyRatePatience)
	defer cancel()
	// The start discards the last measurement, so any result from here on is ours.
	if err := conn.StartDirtyRate(ctx, uuid, seconds, mode); err != nil {
		return 0, err
	}
	wait := time.NewTimer(time.Duration(seconds) * time.Second)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the dirty rate wasn't measured in time: %w", context.Cause(ctx))
		case <-wait.C:
		}
		all, err := conn.Stats(ctx, libvirt.StatsDirtyRate, uuid)
		if err != nil {
			return 0, err
		}
		if len(all) == 0 {
			return 0, libvirt.ErrNotFound
		}
		status := all[0].Params.Uint("dirtyrate.calc_status")
		if rate := all[0].Params.Uint("dirtyrate.megabytes_per_second"); rate != nil && status != nil && *status == measured {
			if err := requireIdle(ctx, conn, uuid); err != nil {
				return 0, err
			}
			return *rate << 20, nil
		}
		if !all[0].State.Active() {
			return 0, fmt.Errorf("the dirty rate can't be measured: the virtual machine is %s", all[0].State)
		}
		wait.Reset(dirtyRatePoll)
	}
}

// requireIdle returns ErrMigrating while a job runs on the VM, such as a migration, a save or a backup.
func requireIdle(ctx context.Context, conn Conn, uuid string) error {
	job, err := conn.Job(ctx, uuid)
	if err != nil {
		return err
	}
	if job != nil && job.Type.Active() {
		return ErrMigrating
	}
	return nil
}
