package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// CheckPower returns the error with which Update would refuse what the run strategy now requires and the plan doesn't
// show, and the VM. An apply that also moves the VM calls it first: the VM then stays where it is. CheckPower leaves
// a VM that can't be found, or that is being moved, to the move.
func (m *Manager) CheckPower(
	ctx context.Context, uuid string, last inventory.LastKnown, d placement.Desired,
) (*inventory.VM, error) {
	vm, err := m.hosts.FindNow(ctx, uuid, last)
	if err == nil && vm.OpenMigration() == nil && vm.RequireIdle() == nil {
		u := &update{manager: m, vm: vm, want: d}

		return vm, inTurn(ctx, u.readEviction, u.checkPower)
	}

	return nil, nil
}

// checkPower returns an error if the run strategy now requires an action that the plan doesn't show: the VM was
// started, stopped or paused since the plan, perhaps by a user who relies on it.
func (u *update) checkPower(context.Context) error {
	planned, action := u.want.Power, u.powerAction()

	switch {
	case planned != nil && planned.Restarts && !u.vm.Active && action == status.None:
		return u.notPlanned("this run would change it without starting it again", "", "")
	case planned == nil, action == status.None, action == planned.Action:
		return nil
	case action == status.Start && planned.Restarts: // The guest was to go down, and to be started.
		return nil
	case action == status.Resume && (u.vm.Stranded || u.vm.StartInterrupted): // No user paused it.
		return nil
	}

	does := map[status.Action]string{
		status.Start: "start it", status.Resume: "resume it", status.Wakeup: "wake it up", status.Stop: "shut it down",
	}[action]

	return u.notPlanned(fmt.Sprintf("with run_strategy %q this run would %s", u.want.Metadata.RunStrategy, does), "", "")
}

// checkPlannedRestart returns an error if the changes restart the guest and the plan doesn't show that: the VM was
// changed or started since.
func (u *update) checkPlannedRestart() error {
	planned, action := u.want.Power, u.powerAction()
	if planned == nil || planned.Restarts || !u.restartsGuest() || action == status.Start || action == status.Stop {
		return nil
	}

	return u.notPlanned("this run would restart its guest",
		". These changes need the restart:\n"+domain.ListChanges(u.restart),
		`To leave the changes to the VM's next start instead, set update_policy to "Stage".`)
}

// notPlanned returns the error that the change would do something to the VM's power that was not planned.
func (u *update) notPlanned(would, because, otherwise string) error {
	happened := "it has changed since it was planned, or the maintenance of its host has"
	if was, is := u.want.Power.Status, u.vm.Status(); was != is {
		happened = fmt.Sprintf("it was %s when it was planned, and is %s now", was, is)
	}

	return &inventory.Error{
		VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrBusy,
		Detail: happened + ": " + would + ", which was not planned. Its power is left as it is" + because,
		Remedy: otherwise, Next: inventory.Review,
	}
}

// changePower starts or stops the VM as its run strategy requires, and restarts it for changes that require that.
func (u *update) changePower(ctx context.Context) error {
	action := u.powerAction()
	starts := action == status.Start || u.restartsGuest() && action != status.Stop

	var permit *placement.StartPermit

	starting := ctx

	if starts {
		var err error
		if starting, permit, err = u.manager.placement.Admit(ctx, u.vm); err != nil {
			return err
		}
		defer permit.Release()
	}

	if u.goesDown() {
		if starts {
			if err := u.markRestarting(ctx, false); err != nil {
				return err
			}
		}

		outcome, err := u.manager.Stop(ctx, u.vm, inventory.GracePeriod(u.want.Metadata))
		if err != nil {
			return sayWhatIsStarted(err, starts)
		}

		u.stopped = outcome
		u.manager.log.InfoContext(ctx, "VM stopped", "name", u.vm.Name, "host", u.vm.Host, "outcome", string(outcome))

		if err := u.refresh(ctx); err != nil {
			return err
		}

		if starts {
			if err := SavedMeanwhile(u.vm, "restarted"); err != nil {
				return err
			}
		}

		// The VM ran here until now, so it runs on no host that doesn't answer.
		u.vm.SilentHosts = nil

		if starts && outcome.Forced() {
			if err := u.markRestarting(ctx, true); err != nil {
				return err
			}
		}
	}

	renameErr := u.renameVM(ctx) // A guest that went down only for its new name runs again without it.

	if !starts {
		return renameErr
	}

	if err := u.manager.Start(starting, permit, u.vm); err != nil {
		return errors.Join(renameErr, err)
	}

	u.off = u.vm

	if err := u.refresh(ctx); err != nil {
		return errors.Join(renameErr, err)
	}

	return errors.Join(renameErr, u.awaitBootBalloon(ctx))
}

// markRestarting records that the guest is shut down only to be started again, before it is: if this run ends in
// between, the next one starts it. forced says that this run has forced it off.
func (u *update) markRestarting(ctx context.Context, forced bool) error {
	metadata := u.vm.Metadata
	metadata.Restarting = &domain.Restarting{Owner: u.manager.owner, Since: time.Now().UTC(), Forced: forced}

	return u.record(ctx, metadata)
}

// sayWhatIsStarted adds to the error that the wait for a guest has ended what the next apply does, if the guest was to
// start again.
func sayWhatIsStarted(err error, starts bool) error {
	var e *inventory.Error
	if starts && errors.As(err, &e) && errors.Is(e, ErrNotReady) {
		e.Detail += ". A run within an hour starts it if it has shut down by then, and restarts it otherwise"
		e.Remedy, e.Next = "", inventory.Continue
	}

	return err
}

// renameVM renames the VM, which libvirt does only while it is off.
func (u *update) renameVM(ctx context.Context) error {
	if u.vm.Active || u.want.Spec.Name == "" || u.want.Spec.Name == u.vm.Name {
		return nil
	}

	if err := u.nameNVRAM(ctx); err != nil {
		return err
	}

	if err := u.vm.On.Conn.RenameDomain(ctx, u.vm.UUID, u.want.Spec.Name); err != nil {
		return err
	}

	return u.refresh(ctx)
}

// nameNVRAM writes the file that has the variables of the VM's firmware into the definition. In libvirt 9.0 no
// definition names that file unless a user chose it: each start then takes it from the VM's name, and under another
// name the guest would begin with new variables, or with those of another VM.
func (u *update) nameNVRAM(ctx context.Context) error {
	file, err := u.variablesToName(ctx)
	if err != nil || file == "" {
		return err
	}

	definition, present, err := u.readComplete(ctx)
	if err != nil {
		return err
	}

	variables := domain.Spec{Values: domain.Values{"firmware.nvram": file}}
	if err := definition.Apply(variables); err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	xml, err := definition.XML()
	if err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	if _, err := u.vm.On.Conn.RedefineDomain(ctx, xml, present); err != nil {
		return err
	}

	return u.refresh(ctx)
}

// variablesToName returns the file that nameNVRAM writes into the definition of the VM, once it is off; "" for none. It
// returns an error if that is unknown.
func (u *update) variablesToName(ctx context.Context) (string, error) {
	inspected, err := move.Inspect(ctx, u.vm)
	if err != nil || inspected.Session || !u.vm.Persistent {
		return "", err
	}

	if u.vm.Active {
		off := move.TurnedOff(ctx, u.vm, inspected)
		if off == nil {
			return "", nil
		}

		inspected = *off
	}

	if !inspected.Mobility.NVRAMUnnamed {
		return "", nil
	}

	return u.findVariables(ctx, inspected.NVRAMFiles())
}

// findVariables returns the one of the files that the host has, "" if it has none: the guest has never started. libvirt
// looks for them, because the user who logs in may not see its files. It returns an error if they can't be looked for.
func (u *update) findVariables(ctx context.Context, files []string) (string, error) {
	for _, file := range files {
		found, err := u.vm.On.Conn.FileIfThere(ctx, file)
		there, known := found != nil, err == nil

		if !known {
			there, known = u.manager.hosts.FilesOn(ctx, u.vm.On, []string{file})[file]
		}

		switch {
		case !known && (ctx.Err() != nil || errors.Is(err, inventory.ErrUnreachable)):
			return "", err
		case !known:
			return "", &inventory.Error{
				VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrBusy, Err: inventory.WithoutHost(err),
				Detail: fmt.Sprintf("it keeps its name: whether host %q has %s, the variables of its firmware, is unknown, "+
					"and under another name it would begin with new ones", u.vm.Host, file),
				Remedy: "Set firmware.nvram to the file that has them.",
			}
		case there:
			return file, nil
		}
	}

	return "", nil
}

// resumeGuest resumes a paused VM, and wakes a suspended one, if the run strategy requires the VM to run.
func (u *update) resumeGuest(ctx context.Context) error {
	var err error

	switch u.powerAction() {
	case status.Resume:
		err = u.manager.Resume(ctx, u.vm)
	case status.Wakeup:
		err = u.vm.On.Conn.WakeupDomain(ctx, u.vm.UUID)
	default:
		return nil
	}

	if err != nil {
		return err
	}

	return u.refresh(ctx)
}

// changeAutostart sets whether the host starts the VM when it boots, as the run strategy requires.
func (u *update) changeAutostart(ctx context.Context) error {
	on, managed := status.Autostart(u.want.Metadata.RunStrategy)
	if !managed || on == u.vm.Autostart || !u.vm.Persistent || u.evicted {
		return nil
	}

	return u.vm.On.Conn.SetAutostart(ctx, u.vm.UUID, on)
}
