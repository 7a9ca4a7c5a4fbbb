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

	// It has the same name: hosts may share the pool or not.
	at, is := p.creatingSeen(ctx, nil)[id]
	if !is {
		return nil
	}

	recorded := map[string][]string{id: at}

	return p.records.Storage().UnfinishedAmong(ctx, h.Name, recorded, func(libvirt.Volume) bool { return true })
}

// creatingSeen is storage.CreatingOn as of the hosts' views: of all hosts, or of one only.
func (cs *Claims) creatingSeen(ctx context.Context, only *inventory.Host) map[string][]string {
	answers, err := cs.hosts.SnapshotOfAnswering(ctx)
	if err != nil {
		return nil
	}

	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)

	recorded := make(map[string][]string)

	for _, a := range answers {
		if a.View == nil || a.Err != nil || only != nil && a.Host != only {
			continue
		}

		wg.Go(func() {
			creating, err := a.View.CreatingVolumes(ctx, a.Host)
			if err != nil {
				return
			}

			mu.Lock()
			defer mu.Unlock()

			for _, name := range creating {
				recorded[name] = append(recorded[name], a.Host.Name)
			}
		})
	}

	wg.Wait()

	return recorded
}

// unfinishedDisk returns the disk of a VM that is off, and the volume that it is, if a run records that it is creating
// the volume; nil if no run does, or if that is unknown. recorded are the volumes that runs are creating, and where.
func (cs *Claims) unfinishedDisk(
	ctx context.Context, vm *inventory.VM, recorded map[string][]string,
) (key string, u *storage.Unfinished) {
	disks := vm.DeclaredSpec().Disks

	u = cs.records.Storage().UnfinishedAmong(ctx, vm.Host, recorded, func(v libvirt.Volume) bool {
		source, _, err := SourceOf(ctx, vm.On, &v)
		if err != nil {
			return false
		}

		for _, of := range slices.Sorted(maps.Keys(disks)) {
			if domain.SameDisk(disks[of].Source, source, true) {
				key = of

				return true
			}
		}

		return false
	})

	return key, u
}

// creatingNow is storage.CreatingOn of a VM's host, and of the others if they can have the VM's disks, too. It leaves
// out those that didn't answer in this operation.
func (cs *Claims) creatingNow(ctx context.Context, vm *inventory.VM) map[string][]string {
	s := cs.answering(ctx)
	if !claimOf(vm, vm.Host, false).anywhere() {
		return storage.CreatingOn(ctx, s.Hosts.Named(vm.Host))
	}

	return storage.CreatingOn(ctx, s.Hosts)
}

// answering returns the storage of the hosts that aren't known to be silent in this operation.
func (cs *Claims) answering(ctx context.Context) *storage.Storage {
	s := cs.records.Storage()

	s.Hosts = s.Hosts.Present()
	for _, name := range s.Hosts.Names() {
		if cs.hosts.Host(name).IsSilent(ctx) {
			s.Hosts = s.Hosts.Without(name)
		}
	}

	return s
}

// VerifyWhole returns ErrUnfinished if one of a host's volumes, by the keys of the disks that they are to be of a VM,
// isn't complete. It asks about all of them at the same time, so that it waits only once for a host that doesn't
// answer.
func (cs *Claims) VerifyWhole(
	ctx context.Context, h *inventory.Host, vm string, volumes map[string]*libvirt.Volume,
) error {
	s := cs.answering(ctx)
	keys := slices.Sorted(maps.Keys(volumes))
	found := make([]*storage.Unfinished, len(keys))

	var wg sync.WaitGroup

	for i, key := range keys {
		wg.Go(func() { found[i] = s.Unfinished(ctx, h.Name, *volumes[key]) })
	}

	wg.Wait()

	for i, u := range found {
		if u != nil {
			return &inventory.Error{
				VM: vm, Host: h.Name, Kind: ErrUnfinished, Detail: fmt.Sprintf("its disk %q is %s", keys[i], u),
				Remedy: u.Remedy(), Next: inventory.Retry,
			}
		}
	}

	return nil
}

// verifyFinished returns ErrUnfinished if a VM that is about to start has a disk that isn't complete: its guest would
// find a part of the content, and write into it while it is copied. It doesn't keep a VM off that has just run.
func (cs *Claims) verifyFinished(ctx context.Context, permit *StartPermit, vm *inventory.VM) error {
	if permit.returns {
		return nil
	}

	key, u := cs.unfinishedDisk(ctx, vm, cs.creatingNow(ctx, vm))
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
	var only *inventory.Host
	if !claimOf(vm, vm.Host, false).anywhere() {
		only = vm.On
	}

	key, u := cs.unfinishedDisk(ctx, vm, cs.creatingSeen(ctx, only))
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
