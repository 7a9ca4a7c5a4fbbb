package fleet

import (
	"context"
	"errors"
	"maps"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Update makes an existing VM what is wished: its definition, what runs,
// its power, its marks; and it removes leftover definitions elsewhere. Each
// step is taken only where something differs, so that an Update that was
// interrupted is completed by the next. A migration that its run left behind is
// brought to its end before.
//
// The VM that comes with an error tells how far it came; it is nil when nobody
// can say.
func (f *Fleet) Update(
	ctx context.Context, uuid string, last inventory.LastKnown, d placement.Desired,
) (*inventory.VM, error) {
	ctx = inventory.AsOneOperation(ctx)

	held, unlock, vm, err := f.LockWhereItIs(ctx, uuid, last, "updating", &d.Migration)
	if err != nil {
		return vm, err
	}
	defer unlock()

	// Nobody is at it any more, and what is left to do with one that stands still is done below.
	if record := vm.OpenMigration(); record != nil && !vm.Stranded {
		if vm, err = f.CloseRecord(held, vm, *record, nil); err != nil {
			return vm, err
		}
	}

	u := &update{fleet: f, vm: vm, want: d}
	err = u.run(held)

	reading, cancel := lease.CleanUp(ctx, inventory.FinishTimeout)
	defer cancel()

	if err != nil {
		// Somebody who moved it by hand may have been why.
		if found, _ := f.FindNow(reading, uuid, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}); found != nil &&
			found.On != vm.On {
			vm.On.Forget()

			return found, err
		}
	}

	now, readErr := f.ReadVM(reading, vm.On, uuid)
	if readErr != nil {
		vm.On.Forget()

		return nil, errors.Join(err, readErr)
	}

	now.SilentHosts, now.Peers = vm.SilentHosts, vm.Peers
	now.Stopped = u.stopped
	now.StaleHosts = u.vm.StaleHosts

	return now, err
}

// update is one Update in progress. vm is refreshed as the VM changes.
type update struct {
	fleet *Fleet
	vm    *inventory.VM
	want  placement.Desired
	// restart are the changes that the running guest does not have yet.
	restart []domain.Change
	// fresh says that the VM was started, and not from a memory image.
	fresh bool
	// stopped says how the VM was shut down, if it was.
	stopped inventory.Outcome
	// defined says that the definition was changed.
	defined bool
	// evicted says that a maintenance of its host shut it down, and it stays so.
	evicted bool
	// hadPassword says that the screen asked for a password before.
	hadPassword bool
	// own are the own disks as they are to be recorded.
	own map[string]domain.OwnDisk
}

func (u *update) run(ctx context.Context) error {
	if err := u.checkHanded(ctx); err != nil {
		return err
	}

	u.keepVolumes()

	if u.action() == status.Start {
		why, err := u.fleet.evictedNow(ctx, u.vm)
		if err != nil {
			return err
		}

		u.evicted = why != ""
	}

	if !u.want.Transient {
		now, err := u.fleet.EnsureDefined(ctx, u.vm)
		if err != nil {
			return err
		}

		u.vm = now
	}

	if err := resolveVolumes(ctx, u.vm.On, &u.want.Spec, u.want.Volumes, *u.vm.DeclaredSpec()); err != nil {
		return err
	}

	if err := u.checkSources(); err != nil {
		return err
	}

	if err := u.checkRestart(); err != nil {
		return err
	}

	if err := u.addOwnDisks(ctx); err != nil {
		return err
	}

	if u.vm.Persistent {
		if err := u.definePersistent(ctx); err != nil {
			return err
		}
	}

	// A guest that stands still can't take part in a change of its own devices.
	if err := u.wake(ctx); err != nil {
		return err
	}

	if err := u.changeRunning(ctx); err != nil {
		return err
	}

	if err := u.power(ctx); err != nil {
		return err
	}

	if err := u.settleOwn(ctx); err != nil {
		return err
	}

	if err := u.mark(ctx); err != nil {
		return err
	}

	if err := u.autostart(ctx); err != nil {
		return err
	}

	if err := u.fleet.RemoveStale(ctx, u.vm); err != nil {
		return err
	}

	u.vm.StaleHosts = nil

	var err error
	u.vm, err = u.fleet.ReleaseLeft(ctx, u.vm, nil, false)

	return err
}

// changeRunning changes the VM if it runs and isn't about to be stopped.
func (u *update) changeRunning(ctx context.Context) error {
	if !u.vm.Active || u.goesDown() {
		return nil
	}

	if err := u.changeLive(ctx); err != nil {
		return err
	}

	return u.changePassword(ctx)
}

// keepVolumes leaves the source of a disk as the definition has it when it is
// the same volume: whether it still is in a pool is none of this update's
// business.
func (u *update) keepVolumes() {
	have := u.vm.DeclaredSpec()

	u.want.Volumes = u.want.Changed(u.vm).Volumes
	u.want.Spec.Disks = maps.Clone(u.want.Spec.Disks)

	for key, disk := range u.want.Spec.Disks {
		is, ok := have.Disks[key]
		if _, volume := u.want.Volumes[key]; ok && !volume && disk.Source.File != "" && disk.Source.File == is.Source.Block {
			disk.Source = is.Source
			u.want.Spec.Disks[key] = disk
		}
	}
}

// checkSources refuses to switch a disk back to an image that the guest has
// left behind, also when that happened after the plan.
func (u *update) checkSources() error {
	drifts := domain.SourceDrifts(*u.vm.DeclaredSpec(), u.vm.LiveSpec, u.want.Spec, u.want.Applied)
	if len(drifts) == 0 {
		return nil
	}

	detail, remedy := drifts[0].Explain(u.vm.Name)

	return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrBusy, Detail: detail, Remedy: remedy}
}

// checkRestart finds out what the running guest can't be given, and refuses it
// where the policy does, before anything is touched.
func (u *update) checkRestart() error {
	u.notePassword()

	if u.vm.LiveSpec == nil {
		return nil
	}

	live := *u.vm.LiveSpec
	if u.vm.PersistentSpec != nil {
		live = domain.WithoutEchoes(live, *u.vm.PersistentSpec)
	}

	for _, c := range domain.Changes(live, u.want.Spec) {
		if !c.Live {
			u.restart = append(u.restart, c)
		}
	}

	if len(u.restart) == 0 {
		return nil
	}

	switch {
	case !u.vm.Persistent:
		return u.restartRefused("the VM is transient: it has no definition that a restart could use")
	case u.want.UpdatePolicy != placement.PolicyStage && !u.goesDown():
		return u.restartRefused(`update_policy is "Live"`)
	default:
		return nil
	}
}

// goesDown says that the VM is shut down in this update: because its run
// strategy wants it off, or for changes that need a restart.
func (u *update) goesDown() bool {
	return u.action() == status.Stop || u.restarts()
}

func (u *update) restarts() bool {
	return len(u.restart) > 0 && u.want.UpdatePolicy == placement.PolicyRestart && u.vm.Active
}

// action is what the run strategy asks for.
func (u *update) action() status.Action {
	if u.evicted {
		return status.None
	}

	return u.want.PowerAction(u.vm)
}

func (u *update) restartRefused(why string) error {
	return &inventory.Error{
		VM: u.vm.Name, Host: u.vm.Host, Kind: ErrRestartRequired,
		Detail: "these changes need a restart, and " + why + ":\n" + domain.ListChanges(u.restart),
		Remedy: `Set update_policy to "Restart" to have the VM restarted, or to "Stage" to leave the changes ` +
			`to its next start.`,
	}
}

// definePersistent patches the persistent definition. It is validated by
// libvirt before the guest is touched.
func (u *update) definePersistent(ctx context.Context) error {
	current := u.vm.Entry.Parse().Persistent
	definition := current.Clone() // the parsed one belongs to everybody who reads the snapshot

	spec := u.want.Spec
	spec.Name = "" // under another name the definition would be another VM's; see power

	if err := definition.Apply(spec); err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	if u.want.GraphicsPassword != nil {
		definition.SetGraphicsPassword(*u.want.GraphicsPassword)
	}

	if definition.Canonical() == current.Canonical() {
		return nil
	}

	if err := u.markVariables(definition); err != nil {
		return err
	}

	xml, err := definition.XML()
	if err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	u.fleet.log.InfoContext(ctx, "changing definition", "name", u.vm.Name, "host", u.vm.Host)

	if _, err := u.vm.On.Conn.RedefineDomain(ctx, xml, u.vm.Entry.PersistentXML); err != nil {
		return err
	}

	u.defined = true

	return u.refresh(ctx)
}

// markVariables notes in the definition that its firmware is not the one that
// the guest's variables are from.
func (u *update) markVariables(definition *domain.Definition) error {
	if !u.vm.Firmware().Outdates(u.want.Spec.Firmware) {
		return nil
	}

	metadata := definition.Metadata()
	// What runs has used them until now, so they may fit again.
	metadata.FreshNVRAM = u.vm.LiveSpec == nil || u.vm.LiveSpec.Firmware.Outdates(u.want.Spec.Firmware)

	if err := definition.SetMetadata(metadata); err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrUnsupported, Err: err}
	}

	return nil
}

// refresh reads the VM again.
func (u *update) refresh(ctx context.Context) error {
	now, err := u.fleet.Refresh(ctx, u.vm)
	if err != nil {
		return err
	}

	u.vm = now

	return nil
}

// mark writes what only we know, and whether a staged change waits for the
// next start.
func (u *update) mark(ctx context.Context) error {
	metadata := u.want.StampOn(u.vm.Metadata)
	metadata.FreshNVRAM = metadata.FreshNVRAM && !u.fresh
	metadata.Creating = nil
	metadata.Staged = nil
	metadata.OwnDisks = u.own
	metadata.Devices = u.vm.Entry.Parse().Definition().DeviceNames()

	if u.vm.LiveSpec != nil && u.vm.PersistentSpec != nil && u.want.UpdatePolicy == placement.PolicyStage {
		metadata.Staged = domain.StagedBy(*u.vm.LiveSpec, *u.vm.PersistentSpec, u.want.Spec)
	}

	wrote, err := records.WriteMetadata(ctx, u.vm, metadata)
	if err == nil && !wrote && u.defined {
		wrote, err = true, records.Raise(ctx, u.vm, metadata)
	}

	if err != nil || !wrote {
		return err
	}

	return u.refresh(ctx)
}
