package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Released says what a Release came to, also one that failed.
type Released struct {
	// Unrestored has a sentence about each VM that stays as it is.
	Unrestored []string
	// ForcedOff are the VMs whose guests were forced off for the move back.
	ForcedOff []hostrecord.ForcedOff
}

// Restore says which VMs the end of a maintenance brings back.
type Restore struct {
	// Wanted says whether it brings back any.
	Wanted bool
	// Restarts are the UUIDs of the running VMs that it may shut down for that: those of ReleasePlan. Nil: all that
	// policies allow.
	Restarts *[]string
}

// Release ends the maintenance with this id: the host accepts VMs again, and every eviction request is removed. After a
// completed drain, restore moves VMs back, and starts those that were shut down or saved. The changes of an incomplete
// drain stay, and stay recorded for the next drain: see resumableSteps.
//
// If something can't be undone, Release returns an error and keeps it recorded, so that the next Release continues. For
// a fenced host it undoes nothing; the other hosts forget its maintenance.
//
// A VM that is not restored because it is on another host or Halted now is no error: see Released.
func (dr *Drainer) Release(ctx context.Context, name, id string, restore Restore) (Released, error) {
	if given := dr.hosts.Host(name); given != nil && given.Config.Fenced {
		dr.records.TellReleased(ctx, name, id, nil) // A fenced host's own record is given up too.

		return Released{}, nil
	}

	h, err := dr.hosts.UsableHost(name)
	if err != nil {
		return Released{}, err
	}

	held, unlock, err := dr.records.Lock(ctx, h, "maintenance", "releasing")
	if err != nil {
		return Released{}, err
	}
	defer unlock()

	dr.hosts.ForgetAll()

	releasing, err := dr.beginRelease(held, h, id)
	if err != nil || releasing == nil {
		return Released{}, err
	}

	r := &releaseRun{drainer: dr, host: h, evacuation: *releasing, restore: restore}
	left, failures := r.undoSteps(held)

	after, cancel := finishContext(held)
	defer cancel()

	err = dr.records.ChangeRecord(after, h, func(r *hostrecord.Record) error {
		r.Evacuation = left

		return nil
	})
	if failures == nil {
		return r.released, err
	}

	return r.released, &inventory.Error{
		Host: name, Err: errors.Join(failures, err),
		Detail: fmt.Sprintf("host %q accepts VMs again, but not everything that its maintenance did was undone", name),
		Remedy: "Remove the cause, and destroy the maintenance again: that undoes the rest.",
	}
}

// beginRelease removes the cordon, which moving VMs back requires, and at the same time records that the rest is still
// to be undone, for the next run if this one is killed. It returns what is to be undone, nil for nothing. It tells the
// other hosts that the maintenance is over, unless the host is under another one by now.
func (dr *Drainer) beginRelease(ctx context.Context, h *inventory.Host, id string) (*hostrecord.Evacuation, error) {
	var evacuation *hostrecord.Evacuation

	told, another := dr.records.ToldElsewhere(ctx, h.Name), false

	err := dr.records.ChangeRecord(ctx, h, func(r *hostrecord.Record) error {
		if evacuation, another = toUndo(r, told, id); another {
			return nil
		}

		r.Cordon = nil

		if evacuation != nil {
			evacuation.Releasing = id
			r.Evacuation = evacuation
		}

		return nil
	})

	if err == nil && !another {
		dr.records.TellReleased(ctx, h.Name, id, evacuation)
	}

	return evacuation, err
}

// releaseRun is one Release in progress.
type releaseRun struct {
	drainer *Drainer
	host    *inventory.Host
	// evacuation is what is undone. The goroutine of a step is the only one that uses its element of the steps.
	evacuation hostrecord.Evacuation
	restore    Restore

	mu       sync.Mutex
	released Released
}

// noteUnrestored notes why a VM is not restored. An empty reason is no note.
func (r *releaseRun) noteUnrestored(vm *inventory.VM, why string) {
	if why == "" {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	r.released.Unrestored = append(r.released.Unrestored, sentence(vm.Name, why))
	slices.Sort(r.released.Unrestored)
}

// noteForcedOff notes that a guest was forced off.
func (r *releaseRun) noteForcedOff(f hostrecord.ForcedOff) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.released.ForcedOff = append(r.released.ForcedOff, f)
}

// sentence returns what happens to the VM of this name.
func sentence(name, happens string) string {
	return fmt.Sprintf("virtual machine %q %s", name, happens)
}

// completed reports whether the step belongs to a completed drain.
func (r *releaseRun) completed(s hostrecord.RecordedStep) bool {
	return r.evacuation.Done || s.Completed
}

// undoSteps undoes every step as far as the user wants it, and returns what stays recorded.
func (r *releaseRun) undoSteps(ctx context.Context) (*hostrecord.Evacuation, error) {
	var (
		mu             sync.Mutex
		errs           []error
		left           []hostrecord.RecordedStep
		going          sync.WaitGroup
		moving, others []int
	)

	for i, s := range r.evacuation.Steps {
		if r.movesBack(s) {
			moving = append(moving, i)
		} else {
			others = append(others, i)
		}
	}

	undo := func(i int) {
		err := r.undoStep(ctx, i)
		s := r.evacuation.Steps[i]

		mu.Lock()
		defer mu.Unlock()

		if err != nil {
			errs = append(errs, fmt.Errorf("virtual machine %q was not restored: %w", s.Name, err))
		}

		resumable := s.Done() && s.Result != hostrecord.ResultLeft || s.Ran
		kept := (resumable || s.Unsafe) && !r.completed(s)
		if kept || err != nil {
			left = append(left, s)
		}
	}

	// A VM that only has to be started doesn't wait until the disks of others are copied back.
	going.Go(func() { several(r.drainer.mover.Queue.Limits().InboundPerHost, moving, undo) })
	going.Go(func() { several(endsAtOnce, others, undo) })
	going.Wait()

	if len(left) == 0 {
		return nil, errors.Join(errs...)
	}

	rest := &hostrecord.Evacuation{Since: r.evacuation.Since, Done: r.evacuation.Done, Steps: left}
	if !rest.Done {
		rest.Abandoned = time.Now().UTC().Truncate(time.Second)
	}

	if len(errs) > 0 {
		rest.Releasing = r.evacuation.Releasing
	}

	return rest, errors.Join(errs...)
}

// several calls do with each of these numbers, so many at a time, and returns when all calls have.
func several(atOnce int, numbers []int, do func(int)) {
	var calls errgroup.Group

	calls.SetLimit(atOnce)

	for _, i := range numbers {
		calls.Go(func() error {
			do(i)

			return nil
		})
	}

	_ = calls.Wait()
}

// undoStep removes the eviction request from the VM and, if the VM is to be restored, moves it back or starts it.
func (r *releaseRun) undoStep(ctx context.Context, i int) error {
	s := r.evacuation.Steps[i]

	if evacuation.RequestsEviction(s.Method) {
		if err := r.drainer.clearEviction(ctx, s.UUID, r.host); err != nil && !inventory.IsNotFound(err) {
			return err
		}
	}

	var err error

	switch {
	case r.movesBack(s):
		err = r.bringBack(ctx, i)
	case r.mayBeOff(s):
		err = r.restorePower(ctx, s)
	}

	if r.drainer.hosts.IsGone(ctx, s.UUID, inventory.LastKnown{Host: r.host.Name}, err) {
		return nil // There is nothing to restore any more.
	}

	if err == nil && (r.movesBack(s) || r.startsAgain(s)) {
		r.forget(ctx, s)
	}

	return err
}

// bringBack moves the VM back with its disks, as decideMove says.
func (r *releaseRun) bringBack(ctx context.Context, i int) error {
	s := r.evacuation.Steps[i]
	last := r.lastKnown(s)

	vm, err := r.drainer.hosts.FindNow(ctx, s.UUID, last)
	if err != nil {
		return err
	}

	d, err := r.decideMove(ctx, vm, s)
	if err != nil {
		return err
	}

	if may := r.restore.Restarts; d.does == restarts && may != nil && !slices.Contains(*may, s.UUID) {
		d = decision{unrestored: fmt.Sprintf("runs on host %q, where it stays: when the end of the maintenance was planned, "+
			"it wasn't among the guests to be shut down", vm.Host)}
	}

	r.noteUnrestored(vm, d.unrestored)

	if vm.On == r.host && len(vm.Metadata.LeftVolumes) > 0 {
		r.removeLeft(ctx, s)
	}

	if d.does == stays {
		return nil
	}

	if d.does == starts {
		return r.startHere(ctx, s)
	}

	s.Target, last.Host = vm.Host, vm.Host // The provider's hosts may give it another name by now.

	stay, err := r.removeStaleImages(ctx, s, d.options)
	if err != nil {
		return err
	}

	step := hostrecord.RecordedStep{Step: s.Step, Ran: s.Returning, Halted: s.ReturningHalted}
	step.Target = r.host.Name

	if s.Method == evacuation.MethodCold {
		ran := func(ctx context.Context, ran, halted bool) error {
			if !ran || d.does == restarts {
				return r.noteRan(ctx, i, ran, halted)
			}

			return &inventory.Error{VM: s.Name, Host: vm.Host, Kind: move.ErrNotMoved, Detail: "it was started meanwhile"}
		}
		_, err := r.drainer.moveCold(ctx, vm.On, step, d.options, copiesOf(s),
			coldNotes{ran: ran, forcedOff: r.noteForcedOff})

		return explainTaken(err, stay)
	}

	now, _, err := r.drainer.mover.MoveForDrain(ctx, s.UUID, last, move.Request{
		Target: r.host.Name, Options: d.options, Priority: admission.PriorityMaintenance, RemoveOriginals: copiesOf(s),
	})

	return verifyArrived(vm.On, now, step, explainTaken(err, stay))
}

// startHere starts the VM that an earlier Release moved back, unless that has changed by now.
func (r *releaseRun) startHere(ctx context.Context, s hostrecord.RecordedStep) error {
	last := inventory.LastKnown{Host: r.host.Name}

	return r.drainer.mover.WithVMLocked(ctx, s.UUID, last, "restoring", func(ctx context.Context, vm *inventory.VM) error {
		if !r.startsHere(vm, s) {
			return nil
		}

		return r.drainer.start(ctx, vm)
	})
}

// restorePower restores the VM's autostart, if the VM is still on the host where it was shut down, and starts the VM if
// decidePower says so.
func (r *releaseRun) restorePower(ctx context.Context, s hostrecord.RecordedStep) error {
	last := r.lastKnown(s)

	return r.drainer.mover.WithVMLocked(ctx, s.UUID, last, "restoring", func(ctx context.Context, vm *inventory.VM) error {
		if s.Autostart && vm.On == r.host && vm.Metadata.RunStrategy != status.Halted {
			if err := vm.On.Conn.SetAutostart(ctx, vm.UUID, true); err != nil {
				return err
			}
		}

		d := r.decidePower(vm, s)
		r.noteUnrestored(vm, d.unrestored)

		if d.does == stays {
			return nil
		}

		return r.drainer.start(ctx, vm)
	})
}
