package fleet

import (
	"context"
	"errors"
	"maps"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Update makes an existing machine what is wished: its definition, what runs,
// its power, its marks; and it removes leftover definitions elsewhere. Each
// step is taken only where something differs, so that an Update that was
// interrupted is completed by the next. A migration that broke in post-copy is
// resumed before, and one that is over without its run is recorded as it ended.
//
// The VM that comes with an error tells how far it came; it is nil when nobody
// can say.
func (f *Fleet) Update(ctx context.Context, uuid string, last LastKnown, d Desired) (*VM, error) {
	held, unlock, vm, err := f.lockWhereItIs(ctx, uuid, last, "updating")
	if err != nil && vm != nil && vm.broken() && vm.interrupted() != nil {
		if vm, err = f.concludeInterrupted(ctx, vm, last, d.Migration); err != nil {
			return vm, err
		}

		held, unlock, vm, err = f.lockWhereItIs(ctx, uuid, LastKnown{vm.Host, vm.HostUUID}, "updating")
	}

	if err != nil {
		return vm, err
	}
	defer unlock()

	// Nobody is at it any more, and what is left to do with one that stands still is done below.
	if record := vm.interrupted(); record != nil && !vm.Stranded {
		if vm, err = f.closeRecord(held, vm, *record, nil); err != nil {
			return vm, err
		}
	}

	u := &update{fleet: f, vm: vm, want: d}
	err = u.run(held)

	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()

	if err != nil {
		// Somebody who moved it by hand may have been why.
		if found, _ := f.findNow(reading, uuid, LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}); found != nil &&
			found.host != vm.host {
			vm.host.forget()

			return found, err
		}
	}

	now, readErr := f.reread(reading, vm.host, uuid)
	if readErr != nil {
		vm.host.forget()

		return nil, errors.Join(err, readErr)
	}

	now.SilentHosts = vm.SilentHosts
	now.Stopped = u.stopped
	now.StaleHosts = u.vm.StaleHosts

	return now, err
}

// update is one Update in progress. vm is refreshed as the machine changes.
type update struct {
	fleet *Fleet
	vm    *VM
	want  Desired
	// restart are the changes that the running guest does not have yet.
	restart []domain.Change
	// fresh says that the machine was started, and not from a memory image.
	fresh bool
	// stopped says how the machine was shut down, if it was.
	stopped Outcome
	// evicted says that a maintenance of its host shut it down, and it stays so.
	evicted bool
}

func (u *update) run(ctx context.Context) error {
	u.keepVolumes()

	if u.action() == status.Start {
		why, err := u.fleet.evictedNow(ctx, u.vm)
		if err != nil {
			return err
		}

		u.evicted = why != ""
	}

	if err := resolveVolumes(ctx, u.vm.host, &u.want.Spec, u.want.Volumes); err != nil {
		return err
	}

	if err := u.checkRestart(); err != nil {
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

	if u.vm.Active && !u.goesDown() {
		if err := u.changeLive(ctx); err != nil {
			return err
		}
	}

	if err := u.power(ctx); err != nil {
		return err
	}

	if err := u.mark(ctx); err != nil {
		return err
	}

	if err := u.autostart(ctx); err != nil {
		return err
	}

	if err := u.fleet.removeStale(ctx, u.vm); err != nil {
		return err
	}

	u.vm.StaleHosts = nil

	return nil
}

// keepVolumes leaves the source of a disk as the definition has it when it is
// the same volume: whether it still is in a pool is none of this update's
// business.
func (u *update) keepVolumes() {
	have := u.vm.declaredSpec()

	u.want.Volumes = u.want.changed(u.vm).Volumes
	u.want.Spec.Disks = maps.Clone(u.want.Spec.Disks)

	for key, disk := range u.want.Spec.Disks {
		is, ok := have.Disks[key]
		if _, volume := u.want.Volumes[key]; ok && !volume && disk.Source.File != "" && disk.Source.File == is.Source.Block {
			disk.Source = is.Source
			u.want.Spec.Disks[key] = disk
		}
	}
}

// checkRestart finds out what the running guest can't be given, and refuses it
// where the policy does, before anything is touched.
func (u *update) checkRestart() error {
	if u.vm.LiveSpec == nil {
		return nil
	}

	for _, c := range domain.Changes(*u.vm.LiveSpec, u.want.Spec) {
		if !c.Live {
			u.restart = append(u.restart, c)
		}
	}

	if len(u.restart) == 0 {
		return nil
	}

	switch {
	case !u.vm.Persistent:
		return u.restartRefused("the machine is transient: it has no definition that a restart could use")
	case u.want.UpdatePolicy != PolicyStage && !u.goesDown():
		return u.restartRefused(`update_policy is "Live"`)
	default:
		return nil
	}
}

// goesDown says that the machine is shut down in this update: because its run
// strategy wants it off, or for changes that need a restart.
func (u *update) goesDown() bool {
	return u.action() == status.Stop || u.restarts()
}

func (u *update) restarts() bool {
	return len(u.restart) > 0 && u.want.UpdatePolicy == PolicyRestart && u.vm.Active
}

// action is what the run strategy asks for.
func (u *update) action() status.Action {
	if u.evicted {
		return status.None
	}

	return u.want.powerAction(u.vm)
}

func (u *update) restartRefused(why string) error {
	return &Error{
		VM: u.vm.Name, Host: u.vm.Host, Kind: ErrRestartRequired,
		Detail: "these changes need a restart, and " + why + ":\n" + domain.ListChanges(u.restart),
		Remedy: `Set update_policy to "Restart" to have the machine restarted, or to "Stage" to leave the changes ` +
			`to its next start.`,
	}
}

// definePersistent patches the persistent definition. It is validated by
// libvirt before the guest is touched.
func (u *update) definePersistent(ctx context.Context) error {
	current := u.vm.entry.parse().persistent
	definition := current.Clone() // the parsed one belongs to everybody who reads the snapshot

	spec := u.want.Spec
	spec.Name = "" // under another name the definition would be another machine's; see power

	if err := definition.Apply(spec); err != nil {
		return &Error{VM: u.vm.Name, Host: u.vm.Host, Kind: ErrInvalid, Err: err}
	}

	if definition.Canonical() == current.Canonical() {
		return nil
	}

	if err := u.markVariables(definition); err != nil {
		return err
	}

	xml, err := definition.XML()
	if err != nil {
		return &Error{VM: u.vm.Name, Host: u.vm.Host, Kind: ErrInvalid, Err: err}
	}

	u.fleet.log.InfoContext(ctx, "changing definition", "name", u.vm.Name, "host", u.vm.Host)

	if _, err := u.vm.host.conn.DefineDomain(ctx, xml); err != nil {
		return err
	}

	return u.refresh(ctx)
}

// markVariables notes in the definition that its firmware is not the one that
// the guest's variables are from.
func (u *update) markVariables(definition *domain.Definition) error {
	if !u.vm.firmware().Outdates(u.want.Spec.Firmware) {
		return nil
	}

	metadata := definition.Metadata()
	// What runs has used them until now, so they may fit again.
	metadata.FreshNVRAM = u.vm.LiveSpec == nil || u.vm.LiveSpec.Firmware.Outdates(u.want.Spec.Firmware)

	if err := definition.SetMetadata(metadata); err != nil {
		return &Error{VM: u.vm.Name, Host: u.vm.Host, Kind: ErrUnsupported, Err: err}
	}

	return nil
}

// firmware is what the definition says of it, and what libvirt chose where that
// leaves the choice to it.
func (vm *VM) firmware() domain.Firmware {
	return domain.Merge(vm.PersistentSpec, vm.LiveSpec, nil, true).Firmware
}

// refresh reads the machine again.
func (u *update) refresh(ctx context.Context) error {
	now, err := u.fleet.refreshed(ctx, u.vm)
	if err != nil {
		return err
	}

	u.vm = now

	return nil
}

// mark writes what only we know, and whether a staged change waits for the
// next start.
func (u *update) mark(ctx context.Context) error {
	metadata := u.want.stamp()
	metadata.Devices = u.vm.Metadata.Devices
	metadata.FreshNVRAM = u.vm.Metadata.FreshNVRAM && !u.fresh
	metadata.Migrations, metadata.Copies = u.vm.Metadata.Migrations, u.vm.Metadata.Copies
	metadata.Eviction = u.vm.Metadata.Eviction
	metadata.Creating = nil
	metadata.Staged = ""

	if u.vm.LiveSpec != nil && u.vm.PersistentSpec != nil && u.want.UpdatePolicy == PolicyStage {
		if len(domain.Pending(*u.vm.LiveSpec, *u.vm.PersistentSpec)) > 0 {
			metadata.Staged = domain.SpecHash(*u.vm.PersistentSpec)
		}
	}

	wrote, err := u.fleet.writeMetadata(ctx, u.vm, metadata)
	if err != nil || !wrote {
		return err
	}

	return u.refresh(ctx)
}
