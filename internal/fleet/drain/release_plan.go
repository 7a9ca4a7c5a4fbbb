package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// ReleasePlan says what Release would do, a sentence for each VM.
type ReleasePlan struct {
	// Restored are VMs that are moved, started or restarted.
	Restored []string
	// Restarts are the UUIDs of the running VMs that are shut down for that.
	Restarts []string
	// Unrestored are VMs that stay as they are, although the maintenance moved them or turned them off.
	Unrestored []string
	// Redrained says that a run which keeps the maintenance drains the host again: its drain or its end didn't finish, or
	// the host has lost its record.
	Redrained bool
}

// PlanRelease returns what Release would do with VMs, as of the snapshot. If the host doesn't answer, what its
// maintenance did is known from the other hosts.
func (dr *Drainer) PlanRelease(ctx context.Context, name, id string, restore bool) (ReleasePlan, error) {
	if given := dr.hosts.Host(name); given != nil && given.Config.Fenced {
		return ReleasePlan{}, nil
	}

	h, err := dr.hosts.UsableHost(name)
	if err != nil {
		return ReleasePlan{}, err
	}

	told := dr.records.ToldElsewhere(ctx, name)

	record, err := dr.records.Record(ctx, name)
	if err != nil && (!errors.Is(err, inventory.ErrUnreachable) || told == nil || told.Abridged) {
		return ReleasePlan{}, err
	}

	e, _ := toUndo(&record, told, id)
	if e == nil {
		return ReleasePlan{}, nil
	}

	r := &releaseRun{drainer: dr, host: h, evacuation: *e, restore: Restore{Wanted: restore}}

	p := ReleasePlan{Redrained: err == nil && (record.Cordon == nil || !e.Done)}

	for _, s := range e.Steps {
		does, restored, unrestored := r.planStep(ctx, s)
		if restored != "" {
			p.Restored = append(p.Restored, sentence(s.Name, restored))
		}

		if does == restarts {
			p.Restarts = append(p.Restarts, s.UUID)
		}

		if unrestored != "" {
			p.Unrestored = append(p.Unrestored, sentence(s.Name, unrestored))
		}
	}

	return p, nil
}

// toUndo returns a copy of what the end of the maintenance with this id undoes, nil for nothing. If the host has lost
// its record, that is what the other hosts were told. another says that the host is under another maintenance by now.
func toUndo(
	record *hostrecord.Record, told *hostrecord.Evacuation, id string,
) (e *hostrecord.Evacuation, another bool) {
	if other := record.MaintenanceID(); other != "" && other != id {
		return nil, true
	}

	switch {
	case record.Lost(told, id):
		e = told.Recovered()
	case record.Evacuation == nil:
		return nil, false
	default:
		own := *record.Evacuation
		e = &own
	}

	e.Steps = slices.Clone(e.Steps) // What a Release notes in them must not change the snapshot.

	return e, false
}

// planStep returns what undoing the step does with its VM, or why the VM stays as it is. Both are "" if there is
// nothing to say.
func (r *releaseRun) planStep(ctx context.Context, s hostrecord.RecordedStep) (
	does restoration, restored, unrestored string,
) {
	back, staysAway := r.movesBack(s), r.staysAway(s)
	if !back && !staysAway && !r.mayBeOff(s) {
		return stays, "", ""
	}

	vm, err := r.drainer.hosts.Find(ctx, s.UUID, r.lastKnown(s))
	if r.drainer.hosts.IsGone(ctx, s.UUID, inventory.LastKnown{Host: r.host.Name}, err) {
		return stays, "", ""
	}

	var d decision

	switch {
	case staysAway && err == nil && isSettled(vm, r.host):
		return stays, "", ""
	case staysAway && err == nil && s.Arrived != "" && !isOnTarget(vm, s):
		return stays, "", r.elsewhereText(vm, s)
	case staysAway:
		return stays, "", fmt.Sprintf("was moved to host %q by a drain that was not completed, and isn't moved back",
			s.Target)
	case err != nil:
	case back:
		d, err = r.decideMove(ctx, vm, s)
	default:
		d = r.decidePower(vm, s)
	}

	switch {
	case err == nil:
		return d.does, d.does.text(r.host.Name), d.unrestored
	case back || r.startsAgain(s):
		does = usualReturn(s)

		return does, fmt.Sprintf("%s, unless it was moved or changed since the drain: its state is unknown (%s)",
			does.text(r.host.Name), shortenReason(err.Error())), ""
	default:
		return stays, "", ""
	}
}

// restoration is what the end of a maintenance does with one VM.
type restoration int

const (
	stays restoration = iota
	movesLive
	movesOff
	// movesAndStarts is for a VM that an earlier Release shut down.
	movesAndStarts
	restarts
	starts
	resumes
)

// text returns what is done with a VM that is brought back to this host, "" for nothing.
func (d restoration) text(host string) string {
	switch d {
	case movesLive:
		return fmt.Sprintf("is moved back to host %q while it runs", host)
	case movesOff:
		return fmt.Sprintf("is moved back to host %q while it is off", host)
	case movesAndStarts:
		return fmt.Sprintf("is moved back to host %q, and started there", host)
	case restarts:
		return fmt.Sprintf("is shut down, moved back to host %q, and started there", host)
	case starts:
		return fmt.Sprintf("is started on host %q", host)
	case resumes:
		return fmt.Sprintf("is resumed on host %q from its saved memory", host)
	default:
		return ""
	}
}

// usualReturn returns what is done with the VM of a step that is restored, if nothing has changed since the drain.
func usualReturn(s hostrecord.RecordedStep) restoration {
	switch {
	case s.Result == hostrecord.ResultShutDown:
		return starts
	case s.Result == hostrecord.ResultSaved:
		return resumes
	case s.Method != evacuation.MethodCold:
		return movesLive
	case s.Ran:
		return restarts
	default:
		return movesOff
	}
}

// decision is what is done with a VM. unrestored is why it stays as it is, if the user has to know. options are those
// of its move.
type decision struct {
	does       restoration
	unrestored string
	options    migration.Options
}

// movesBack reports whether the VM of the step is to be moved back.
func (r *releaseRun) movesBack(s hostrecord.RecordedStep) bool {
	return r.wantsBack(s) && r.completed(s)
}

// staysAway reports whether the VM of the step isn't moved back although the user wants VMs restored: its drain was not
// completed. A Release says nothing about it, because an unfinished maintenance that is created again continues.
func (r *releaseRun) staysAway(s hostrecord.RecordedStep) bool {
	return r.wantsBack(s) && !r.completed(s)
}

// wantsBack reports whether a drain moved the VM of the step, and the user wants VMs restored.
func (r *releaseRun) wantsBack(s hostrecord.RecordedStep) bool {
	moved := s.Result == hostrecord.ResultMoved || s.Result == hostrecord.ResultColdMoved

	return moved && r.restore.Wanted && s.Target != ""
}

// isSettled reports whether the VM isn't to be moved back to this host: it is there, or its configuration pins it to
// the host where it is.
func isSettled(vm *inventory.VM, home *inventory.Host) bool {
	return vm.On == home || vm.Metadata.Host == vm.Host
}

// startsAgain reports whether the VM of the step, which was shut down or saved, is to be started.
func (r *releaseRun) startsAgain(s hostrecord.RecordedStep) bool {
	off := s.Result == hostrecord.ResultShutDown || s.Result == hostrecord.ResultSaved

	return off && r.restore.Wanted && r.completed(s)
}

// mayBeOff reports whether the step turned the VM off, or its autostart. A step that failed may have done so.
func (r *releaseRun) mayBeOff(s hostrecord.RecordedStep) bool {
	switch s.Result {
	case hostrecord.ResultMoved, hostrecord.ResultColdMoved:
		return false
	case hostrecord.ResultShutDown, hostrecord.ResultSaved:
		return true
	default:
		return s.Autostart || s.Asked()
	}
}

// lastKnown returns where the VM of the step was last. A host that is no longer configured may have a VM that was
// moved, until that host is fenced.
func (r *releaseRun) lastKnown(s hostrecord.RecordedStep) inventory.LastKnown {
	if r.wantsBack(s) {
		return inventory.LastKnown{Host: s.Target, HostUUID: s.TargetUUID}
	}

	return inventory.LastKnown{Host: r.host.Name}
}

// decideMove decides about a VM that is to be moved back. A VM that runs and can't move live is shut down only if its
// rule still allows that.
func (r *releaseRun) decideMove(ctx context.Context, vm *inventory.VM, s hostrecord.RecordedStep) (decision, error) {
	arrived := isOnTarget(vm, s)

	switch {
	case r.startsHere(vm, s):
		return decision{does: starts}, nil
	case vm.On == r.host, arrived && isSettled(vm, r.host):
		return decision{}, nil
	case !arrived && s.Arrived != "":
		return decision{unrestored: r.elsewhereText(vm, s)}, nil
	case !arrived:
		return decision{unrestored: fmt.Sprintf("was moved to host %q and is on host %q by now, where it stays", s.Target,
			vm.Host)}, nil
	}

	rule, err := r.ruleNow(ctx, vm)
	if err != nil {
		return decision{}, err
	}

	d := decision{options: rule.Options.Over(s.Options)}

	switch {
	case s.Method != evacuation.MethodCold && vm.Active:
		d.does = movesLive
	case s.Method != evacuation.MethodCold:
		d.does = movesOff
	case vm.Active && evacuation.MethodFor(rule, false) != evacuation.MethodCold:
		d.unrestored = fmt.Sprintf("runs on host %q, where it stays: the drain moved it while it was off, and no eviction "+
			"policy with the fallback %s covers it any more", vm.Host, evacuation.ColdMigrate)
	case vm.Active:
		d.does = restarts
	case startsAfterMove(vm, s):
		d.does = movesAndStarts
	default:
		d.does = movesOff
	}

	return d, nil
}

// elsewhereText says where a VM is that left the host before the drain could move it.
func (r *releaseRun) elsewhereText(vm *inventory.VM, s hostrecord.RecordedStep) string {
	return fmt.Sprintf("was to be moved to host %q, but left host %q in another way, and is on host %q now, where it "+
		"stays", s.Target, r.host.Name, vm.Host)
}

// startsAfterMove reports whether the VM, which is off, is started once it is back: an earlier Release shut it down for
// its cold move.
func startsAfterMove(vm *inventory.VM, s hostrecord.RecordedStep) bool {
	return s.Returning && (s.ReturningHalted || vm.Metadata.RunStrategy != status.Halted)
}

// startsHere reports whether the VM is back and still to be started: the earlier Release that moved it back was killed
// before it could start it.
func (r *releaseRun) startsHere(vm *inventory.VM, s hostrecord.RecordedStep) bool {
	return vm.On == r.host && !vm.Active && startsAfterMove(vm, s)
}

// ruleNow returns the rule of the VM by the policies of now.
func (r *releaseRun) ruleNow(ctx context.Context, vm *inventory.VM) (evacuation.Rule, error) {
	dr := r.drainer

	known, err := dr.records.Records(ctx)
	if err != nil {
		return evacuation.Rule{}, err
	}

	policies, err := dr.records.EvictionPolicies().ForVMsOn(r.host, known)
	if err != nil {
		return evacuation.Rule{}, err
	}

	return evacuation.SelectRule(records.ForPolicies(vm), r.host.Name, policies, dr.defaultEviction), nil
}

// decidePower decides about a VM that the drain turned off, or may have. A VM that is Halted now stays off, and so does
// one that an incomplete drain turned off. An apply starts one that is Always to run.
func (r *releaseRun) decidePower(vm *inventory.VM, s hostrecord.RecordedStep) decision {
	strategy := vm.Metadata.RunStrategy

	switch {
	case vm.Active:
		return decision{}
	case r.startsAgain(s) && vm.On != r.host:
		return decision{unrestored: fmt.Sprintf("was shut down and is on host %q by now, where it stays off", vm.Host)}
	case strategy == status.Halted:
		return decision{}
	case r.startsAgain(s) && vm.ManagedSave:
		return decision{does: resumes}
	case r.startsAgain(s) && s.Result == hostrecord.ResultShutDown && vm.SavedToFile():
		return decision{unrestored: fmt.Sprintf("stays off on host %q, because its memory was saved to a file meanwhile: to "+
			"continue the saved guest, run \"virsh restore <file>\" there", vm.Host)}
	case r.startsAgain(s):
		return decision{does: starts}
	case !r.completed(s) && s.Asked() && strategy != status.Always:
		return decision{unrestored: fmt.Sprintf("was turned off by a drain that was not completed, and stays off on host %q "+
			"until you start it or drain the host again", vm.Host)}
	default:
		return decision{}
	}
}
