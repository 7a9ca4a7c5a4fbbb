package drain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// unsafeMoves are VMs, by UUID, whose live migration libvirt refused as unsafe for their disks. Its value says whether
// it did so in this run. An answer to an earlier run counts only while the checks leave it open whether the target
// reaches the disks: a user may have resolved it since.
type unsafeMoves map[string]bool

// unsafeMovesOf returns what libvirt answered an earlier drain of the host.
func unsafeMovesOf(e *hostrecord.Evacuation) unsafeMoves {
	all := unsafeMoves{}
	if e == nil || !e.Abandoned.IsZero() && time.Since(e.Abandoned) > abandonedMemory {
		return all
	}

	for _, s := range e.Steps {
		if s.Unsafe {
			all[s.UUID] = false
		}
	}

	return all
}

// block adds to routes of the running VM what libvirt answered.
func (u unsafeMoves) block(uuid string, live routes) {
	now, refused := u[uuid]
	if !refused {
		return
	}

	for host, blockers := range live.blockers {
		blockers = slices.Clone(blockers)
		open := now

		for i, b := range blockers {
			if b.Status == status.Unknown && b.Reason == migration.DisksNotLiveMigratable {
				blockers[i].Status, open = status.False, false
				blockers[i].Message += fmt.Sprintf("; %v", errRefused)
			}
		}

		if open {
			blockers = append(blockers, migration.Blocker{
				Reason: migration.DisksNotLiveMigratable, Status: status.False, Attribute: "disks",
				Message: errRefused.Error(), Remedy: migration.UnsafeRemedy,
			})
		}

		live.blockers[host] = blockers
		if len(migration.Blocking(blockers)) > 0 {
			delete(live.bytes, host)
			delete(live.space, host)
		}
	}
}

// errRefused says what libvirt answered.
var errRefused = errors.New("libvirt refused its live migration as unsafe for its disks")

// noteUnsafe notes if err says that libvirt refuses to migrate the VM of a step live. This is final: libvirt decides by
// the disks of the VM on its host, whichever the target is.
func (d *drainRun) noteUnsafe(i int, err error) {
	if !errors.Is(err, libvirt.ErrUnsafe) {
		return
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.steps[i].Unsafe = true
	d.unsafe[d.steps[i].UUID] = true
}

// keepUnsafe notes in the steps what libvirt answered an earlier drain, for the next one.
func (d *drainRun) keepUnsafe() {
	for i, s := range d.steps {
		_, d.steps[i].Unsafe = d.unsafe[s.UUID]
	}
}

// unsafeNow returns a copy of what libvirt has answered by now.
func (d *drainRun) unsafeNow() unsafeMoves {
	d.mu.Lock()
	defer d.mu.Unlock()

	return maps.Clone(d.unsafe)
}

// refusedUnsafe says whether libvirt refused to migrate a VM live in this run.
func (d *drainRun) refusedUnsafe() bool {
	return slices.Contains(slices.Collect(maps.Values(d.unsafeNow())), true)
}
