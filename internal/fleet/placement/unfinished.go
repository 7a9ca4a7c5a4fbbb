package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ErrUnfinished means that a disk is a volume that a run is creating, or was creating when it was interrupted.
var ErrUnfinished = errors.New("a disk may lack a part of its content")

// unfinishedIn returns a volume of a host for a new disk if a run records on any host that it is creating the volume;
// nil if no run does, or if that is unknown. In a plan, the same apply may create the volume before the VM gets it.
func (p *Scheduler) unfinishedIn(
	ctx context.Context, h *inventory.Host, d Desired, v *libvirt.Volume,
) *storage.Unfinished {
	id := storage.Ref{Pool: v.Pool, Name: v.Name}.String()
	if d.Planned && !d.UnplannedVolumes[id] {
		return nil
	}

	answers, err := p.hosts.SnapshotOfAnswering(ctx)
	if err != nil {
		return nil
	}

	var (
		wg sync.WaitGroup
		mu sync.Mutex
		is bool
	)

	for _, a := range answers {
		if a.View == nil || a.Err != nil {
			continue
		}

		wg.Go(func() {
			creating, err := a.View.CreatingVolumes(ctx, a.Host)
			if err != nil || !slices.Contains(creating, id) {
				return
			}

			mu.Lock()
			defer mu.Unlock()

			is = true
		})
	}

	wg.Wait()

	if !is {
		return nil
	}

	return p.records.Storage().Unfinished(ctx, h.Name, *v) // It has the same name: hosts may share the pool or not.
}

// unfinishedDisk returns the disk of a VM that is off, and the volume that it is, if a run records that it is creating
// the volume; nil if no run does, or if that is unknown. Other hosts are asked if they can have the disks, too.
func (cs *Claims) unfinishedDisk(ctx context.Context, vm *inventory.VM) (key string, u *storage.Unfinished) {
	s := cs.records.Storage()

	hosts := s.Hosts.Named(vm.Host)
	if claimOf(vm, vm.Host, false).anywhere() {
		hosts = s.Hosts.Present()
		for _, name := range hosts.Names() {
			if cs.hosts.Host(name).IsSilent(ctx) {
				hosts = hosts.Without(name)
			}
		}
	}

	disks := vm.DeclaredSpec().Disks

	for _, unfinished := range s.UnfinishedOn(ctx, vm.Host, hosts) {
		source, _, err := SourceOf(ctx, vm.On, &unfinished.Volume)
		if err != nil {
			continue
		}

		for _, key := range slices.Sorted(maps.Keys(disks)) {
			if domain.SameDisk(disks[key].Source, source, true) {
				return key, &unfinished
			}
		}
	}

	return "", nil
}

// verifyFinished returns ErrUnfinished if a VM that is about to start has a disk that isn't complete: its guest would
// find a part of the content, and write into it while it is copied. It doesn't keep a VM off that has just run.
func (cs *Claims) verifyFinished(ctx context.Context, permit *StartPermit, vm *inventory.VM) error {
	if permit.returns {
		return nil
	}

	key, u := cs.unfinishedDisk(ctx, vm)
	if u == nil {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrUnfinished, Detail: fmt.Sprintf("it is not started, since its disk %q is %s",
			key, u), Remedy: u.Remedy(), Next: inventory.Retry,
	}
}

// startsUnfinished returns the problem that verifyFinished will refuse the planned start of a VM. It is a warning if
// the same apply may complete the volume before.
func (cs *Claims) startsUnfinished(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	key, u := cs.unfinishedDisk(ctx, vm)
	if u == nil {
		return nil
	}

	problem := inventory.Problem{
		Attribute: "disks." + key, Summary: changeSummary, Remedy: u.Remedy(),
		Detail: fmt.Sprintf("VM %q can't be started: its disk %q is %s.", vm.Name, key, u),
	}
	if !d.UnplannedVolumes[u.Ref().String()] {
		problem.Summary, problem.Warning = startSummary, true
	}

	return []inventory.Problem{problem}
}
