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
	// Queue is where VMs wait for their turn to move.
	Queue     *admission.Queue
	hosts     *inventory.Inventory
	records   *records.Store
	placement *placement.Planner
	owner     string
	log       *slog.Logger
	// bringing is held, by host and file, while an image is brought there.
	bringing   admission.Mutexes
	background sync.WaitGroup
}

// NewMover prepares the mover of these hosts. It does no I/O.
func NewMover(hosts *inventory.Inventory, store *records.Store, planner *placement.Planner, cfg Config) *Mover {
	mv := &Mover{hosts: hosts, records: store, placement: planner, owner: cfg.Owner, log: cfg.Log}
	mv.Queue = admission.NewQueue(cfg.Limits, mv.trafficNow)

	return mv
}

// AwaitReleases waits until moves that are over have given back the room that they kept on their targets.
func (mv *Mover) AwaitReleases() { mv.background.Wait() }
