package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Update changes an existing VM to its configuration: its definition, the running VM, its power and its metadata. It
// also removes stale definitions on other hosts. It does each step only if something differs, so that the next Update
// completes an interrupted one. Before that, it concludes a migration whose run was killed.
//
// A VM that is returned with an error is in its state after the error. It is nil if that state is unknown.
func (m *Manager) Update(
	ctx context.Context, uuid string, last inventory.LastKnown, d placement.Desired,
) (*inventory.VM, error) {
	ctx = inventory.AsOneOperation(ctx)

	held, unlock, vm, err := m.mover.LockWhereItIs(ctx, uuid, last, "updating", &d.Migration)
	if err != nil {
		return vm, err
	}
	defer unlock()

	// No run is migrating the VM, because this one has its lock. A stranded VM is recovered below.
	if record := vm.OpenMigration(); record != nil && !vm.Stranded {
		if vm, err = m.mover.CloseRecord(held, vm, *record, nil); err != nil {
			return vm, err
		}
	}

	u := &update{manager: m, vm: vm, begun: vm, want: d, kept: vm.KeptDisks}
	err = u.changeVM(held)

	reading, cancel := lease.GraceContext(ctx)
	defer cancel()

	now, readErr := m.hosts.ReadVM(reading, vm.On, uuid)

	// The cause of the error may be that a user moved the VM by hand.
	if err != nil && (readErr != nil || !now.Active) {
		found, _ := m.hosts.FindNow(reading, uuid, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID})
		if found != nil && found.On != vm.On {
			vm.On.Forget()

			return found, err
		}
	}

	if readErr != nil {
		vm.On.Forget()

		return nil, errors.Join(err, readErr)
	}

	now.SilentHosts = vm.SilentHosts
	now.SetPeers(vm.Peers)
	now.Stopped, now.KeptDisks = u.stopped, u.kept
	now.StaleHosts, now.TriedVolumes = u.vm.StaleHosts, u.vm.TriedVolumes
	now.PasswordSet = u.passwordSet(now)

	return now, err
}

// update is one call of Update. vm is refreshed as the VM changes, and begun is the VM as it was.
type update struct {
	manager *Manager
	vm      *inventory.VM
	begun   *inventory.VM
	want    placement.Desired
	// restart are the changes that the running guest doesn't have until it restarts.
	restart []domain.Change
	// stopped says how the VM was shut down; "" if it was not.
	stopped inventory.Outcome
	// off is the VM before this update started it; nil if it didn't.
	off *inventory.VM
	// applied are the sources of the disks in the definition as this update writes it, or leaves it.
	applied map[string]string
	// defined says that the definition was changed. before is the definition as it was, with its secrets; "" if it
	// certainly wasn't changed.
	defined bool
	before  string
	// was is the persistent definition that the running VM's devices are found by: before the change, and once the
	// running VM has a device that needs more calls, the present one.
	was *domain.Definition
	// evicted says that a maintenance of its host shut the VM down, so that it stays off.
	evicted bool
	// password is how far the update has come with the password of the graphics.
	password passwordChange
	// own are the own disks as they are to be recorded.
	own map[string]domain.OwnDisk
	// left are the volumes of own disks that the VM has lost, on hosts that it has left since.
	left []domain.LeftVolume
	// made are the keys of the own disks that this update has created.
	made []string
	// kept are own disks that should have been removed, and why they were kept.
	kept []string
}

// changeVM makes all changes. What may be refused comes before what changes the host.
func (u *update) changeVM(ctx context.Context) error {
	if err := cmp.Or(u.vm.RequireOneCopy(), u.manager.placement.VerifyUndeleted(ctx, u.vm)); err != nil {
		return err
	}

	if err := u.verifyDevicesKnown(); err != nil {
		return err
	}

	if err := inTurn(ctx, u.awaitMedia, u.checkDisks); err != nil {
		return err
	}

	u.keepVolumes()
	u.keepRunning()

	return inTurn(ctx,
		u.readEviction, u.checkPower, u.ensureDefined,
		u.changeReserved,
		u.changePower,
		u.growOrDropOwnDisks,
		u.writeMetadata,
		u.changeAutostart,
		u.removeStale,
		u.removeCopies,
		u.removeLeftVolumes,
	)
}

// changeReserved changes the definition and the running VM. What is reserved for the change is then the VM's own, and
// isn't reserved any longer: the VM's guest may take long to shut down.
func (u *update) changeReserved(ctx context.Context) error {
	held, release, err := u.resolve(ctx)
	if err != nil {
		return err
	}
	defer release()

	if err := inTurn(ctx, u.checkRestart, u.checkRename, u.checkJobs, u.addOwnDisks); err != nil {
		return err
	}

	disks, err := u.pluggedDisks()
	if err != nil {
		return errors.Join(err, u.takeBack(ctx))
	}

	return u.manager.placement.PlugAlone(held, u.vm, placement.Plugging{
		Disks: disks, Define: u.definePersistent, TakeBack: u.takeBack,
		Plug: func(ctx context.Context) error {
			return inTurn(ctx,
				u.notePasswordDefined,
				u.resumeGuest, // A paused guest can't release a device.
				u.changeRunning,
			)
		},
	})
}

// inTurn carries out the steps until one of them fails.
func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}

	return nil
}

// ensureDefined makes a transient VM persistent, unless it is to stay transient.
func (u *update) ensureDefined(ctx context.Context) error {
	if u.want.Transient {
		return nil
	}

	now, err := u.manager.mover.EnsureDefined(ctx, u.vm)
	if err == nil {
		u.vm = now
	}

	return err
}

// resolve finds the volumes and the host devices that the configuration leaves open, and reserves the memory that the
// change adds. Until release, no other VM gets the devices and the memory. The VM gets them with the held context.
func (u *update) resolve(ctx context.Context) (held context.Context, release func(), err error) {
	err = u.manager.resolveVolumes(ctx, u.vm.On, &u.want.Spec, u.want, *u.vm.DeclaredSpec())
	if err == nil {
		err = u.checkSources()
	}

	if err == nil {
		u.want.Spec, held, release, err = u.manager.placement.AdmitChange(ctx, u.vm, u.want)
	}

	return held, release, err
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

// keepVolumes keeps a disk's source in the definition if it is the declared volume, whether or not a storage pool still
// has that volume.
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

// checkSources refuses to switch a disk back to an image that the guest no longer uses. It checks again what the plan
// checked, because the source may have changed since.
func (u *update) checkSources() error {
	drifts := domain.SourceDrifts(*u.vm.DeclaredSpec(), u.vm.LiveSpec, u.want.Spec, u.want.Applied, u.vm.Metadata.Applied)
	if len(drifts) == 0 {
		return nil
	}

	detail, remedy := drifts[0].Explain(u.vm.Name)

	return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrBusy, Detail: detail, Remedy: remedy}
}

// readEviction finds out whether a VM that is to be started was turned off by a drain.
func (u *update) readEviction(ctx context.Context) error {
	if u.powerAction() != status.Start {
		return nil
	}

	why, err := u.manager.records.EvictedNow(ctx, u.vm)
	u.evicted = why != ""

	return err
}

// checkRestart finds out which changes require a restart. It returns an error if the update policy doesn't allow the
// restart, or if the plan doesn't show it, before anything is changed.
func (u *update) checkRestart(ctx context.Context) error {
	if err := u.notePassword(ctx); err != nil {
		return err
	}

	live := u.vm.RunningSpec(u.want.Spec)
	if live == nil {
		return nil
	}

	running := *live
	if u.want.AsksAgain(u.vm) {
		running.Held = nil
	}

	for _, c := range domain.Changes(running, u.want.Spec) {
		if !c.Live && !slices.Contains(u.want.StaysRunning, c.Path) {
			u.restart = append(u.restart, c)
		}
	}

	if len(u.restart) == 0 {
		return nil
	}

	switch {
	case !u.vm.Persistent:
		return u.restartRefused("the VM is transient: it has no definition that a restart could use", u.vm.DefineRemedy(),
			inventory.Retry)
	case u.want.UpdatePolicy != placement.PolicyStage && !u.goesDown():
		return u.restartRefused(`update_policy is "Live"`, `Set update_policy to "Restart" to have the VM restarted, or to `+
			`"Stage" to leave the changes to its next start.`, 0)
	default:
		return u.checkPlannedRestart()
	}
}

// goesDown reports whether this update shuts the VM down: because of its run strategy, or for changes that require a
// restart. A VM that is started although it has a process is kept after its guest has panicked: that process ends, too.
func (u *update) goesDown() bool {
	action := u.powerAction()

	return action == status.Stop || action == status.Start && u.vm.Active || u.restartsGuest()
}

func (u *update) restartsGuest() bool {
	return len(u.restart) > 0 && u.want.UpdatePolicy == placement.PolicyRestart && u.vm.Active
}

// powerAction returns the action that the run strategy requires. A VM that a maintenance shut down stays off.
func (u *update) powerAction() status.Action {
	if u.evicted {
		return status.None
	}

	return u.want.PowerAction(u.vm)
}

func (u *update) restartRefused(why, remedy string, next inventory.Next) error {
	return &inventory.Error{
		VM: u.vm.Name, Host: u.vm.Host, Kind: ErrRestartRequired,
		Detail: "these changes need a restart, and " + why + ":\n" + domain.ListChanges(u.restart),
		Remedy: remedy, Next: next,
	}
}

// refresh reads the VM again.
func (u *update) refresh(ctx context.Context) error {
	now, err := u.manager.hosts.Refresh(ctx, u.vm)
	if err != nil {
		return err
	}

	u.vm = now

	return nil
}

// writeMetadata writes what libvirt doesn't store, and whether a staged change waits for the next start.
func (u *update) writeMetadata(ctx context.Context) error {
	metadata := u.want.StampOn(u.vm.Metadata)
	metadata.Creating, metadata.Starting, metadata.Deleting = nil, nil, nil
	metadata.Staged, metadata.Unfinished = nil, u.unsettled()

	if u.off != nil { // Its start may have failed to remove them.
		metadata = afterStart(metadata, u.off)
	}

	metadata.OwnDisks = u.own
	metadata.LeftVolumes = slices.Concat(metadata.LeftVolumes, u.left)
	metadata.Applied = u.applied
	if u.vm.Active || !u.evicted {
		metadata.Restarting = nil // It isn't restarting any longer, or its run strategy wants it off.
	}

	definition, err := u.namedDefinition()
	if err != nil {
		return err
	}

	metadata.Devices = definition.DeviceNames(u.vm.Entry.Parse().Live)

	if u.vm.LiveSpec != nil && u.vm.PersistentSpec != nil && u.want.UpdatePolicy == placement.PolicyStage {
		metadata.Staged = domain.StagedBy(*u.vm.LiveSpec, *u.vm.PersistentSpec, u.want.Spec)
	}

	wrote, err := records.WriteMetadata(ctx, u.vm, metadata)
	if err == nil && !wrote && (u.defined || records.RunningDiffers(u.vm, metadata)) {
		wrote, err = true, records.Raise(ctx, u.vm, metadata)
	}

	if err != nil || !wrote {
		return err
	}

	return u.refresh(ctx)
}

// unsettled returns what earlier updates, which failed, have left in the definition, and the running VM still lacks:
// the next start has it, whatever is declared by then.
func (u *update) unsettled() domain.Staged {
	if u.vm.LiveSpec == nil || u.vm.PersistentSpec == nil || u.begun.PersistentSpec == nil {
		return nil
	}

	return u.begun.Metadata.Unfinished.Remaining(
		*u.vm.LiveSpec, *u.begun.PersistentSpec, *u.vm.PersistentSpec, u.want.Spec)
}
