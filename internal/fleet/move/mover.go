package move

import (
	"log/slog"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config says who moves VMs, and how many at a time.
type Config struct {
	// Owner says who moved a VM, for others to read.
	Owner  string
	Limits admission.Limits
	Log    *slog.Logger
}

// Mover moves VMs. All methods may be called from several goroutines.
type Mover struct {
	*Checks
	*Recovery

	// Queue is where VMs wait for their turn to move.
	Queue     *admission.Queue
	hosts     *inventory.Inventory
	records   *records.Store
	placement *placement.Scheduler
	owner     string
	log       *slog.Logger
	// copying is locked, by host and file, while an image is copied there.
	copying    admission.Mutexes
	background sync.WaitGroup
}

// Checks find out before a move what blocks it, which hosts are possible targets, and what it copies. They change
// nothing.
type Checks struct {
	hosts     *inventory.Inventory
	records   *records.Store
	placement *placement.Scheduler
	queue     *admission.Queue
}

// Recovery completes moves whose run was killed: it waits for a migration that continues without its run, or aborts it,
// resumes a migration that broke in post-copy, and closes the record.
type Recovery struct {
	*Cleanup

	hosts   *inventory.Inventory
	records *records.Store
	log     *slog.Logger
	// unwritten are the completed records that this run couldn't write, for example because the lock on a dead target
	// can't be renewed: see recordKey.
	unwritten sync.Map
}

// Cleanup removes what moves leave on hosts that no longer have the VM, or never had it: stale definitions, unfinished
// copies, volumes of own disks. Before that it makes sure that the VM is defined where it is.
type Cleanup struct {
	hosts   *inventory.Inventory
	records *records.Store
	log     *slog.Logger
}

// NewMover prepares the mover of these hosts. It does no I/O.
func NewMover(hosts *inventory.Inventory, store *records.Store, scheduler *placement.Scheduler, cfg Config) *Mover {
	mv := &Mover{
		Checks: &Checks{hosts: hosts, records: store, placement: scheduler},
		Recovery: &Recovery{
			Cleanup: &Cleanup{hosts: hosts, records: store, log: cfg.Log}, hosts: hosts, records: store, log: cfg.Log,
		},
		hosts: hosts, records: store, placement: scheduler, owner: cfg.Owner, log: cfg.Log,
	}
	mv.Queue = admission.NewQueue(cfg.Limits, mv.trafficNow)
	mv.queue = mv.Queue

	return mv
}

// AwaitReleases waits until finished moves have released their reservations on their targets.
func (mv *Mover) AwaitReleases() { mv.background.Wait() }
