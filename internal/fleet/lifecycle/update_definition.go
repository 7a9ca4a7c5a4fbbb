package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// definePersistent patches the persistent definition, if there is one. libvirt validates it before the guest is
// changed.
func (u *update) definePersistent(ctx context.Context) error {
	if !u.vm.Persistent { // What runs is changed later. This notes which disks it will have.
		_, _, err := u.edit(u.vm.Entry.Parse().Definition())

		return err
	}

	u.was = u.vm.Entry.Parse().Persistent

	_, changed, err := u.edit(u.was)
	if err != nil || !changed && u.want.GraphicsPassword == nil {
		return err
	}

	// Passwords are read only to be written back: defined again without them, the VM would lose them.
	current, present, err := u.readComplete(ctx)
	if err != nil {
		return err
	}

	definition, changed, err := u.edit(current)
	if err != nil || !changed {
		return err
	}

	xml, err := u.recorded(current, definition)
	if err != nil {
		return err
	}

	u.manager.log.InfoContext(ctx, "changing definition", "name", u.vm.Name, "host", u.vm.Host)

	if err := u.recordStarted(ctx); err != nil {
		return err
	}

	u.before = present // A call without a reply may have written the definition.

	if _, err := u.vm.On.Conn.RedefineDomain(ctx, xml, present); err != nil {
		if inventory.Refused(err) && ctx.Err() == nil {
			u.before = ""
		}

		return err
	}

	u.defined = true

	return u.refresh(ctx)
}

// withdraw takes a device that libvirt refused to plug into the running VM out of its definition again, if this update
// wrote it there: the next start would fail with it. Everything else stays as it was written. A volume that this update
// created for it goes, too, also if the VM is transient, and so has no definition to be corrected.
func (u *update) withdraw(ctx context.Context, s domain.Step, why error) error {
	spec, isDevice := u.want.Spec.WithoutDevice(s.Path)
	refused := inventory.Refused(why) && ctx.Err() == nil

	switch {
	case refused && !u.vm.Persistent:
		if err := u.refresh(ctx); err != nil {
			return err
		}

		return u.discardMade(ctx)
	case !refused || !u.defined || s.Kind != domain.Attach || !isDevice:
		return nil
	}

	before, err := domain.Parse(u.before)
	if err != nil || before.Spec().HasDevice(s.Path) { // An earlier update wrote it there.
		return err
	}

	declared := u.want.Spec
	u.want.Spec = spec
	xml := ""

	definition, _, err := u.edit(before)
	if err == nil {
		xml, err = u.recorded(before, definition)
	}

	u.want.Spec = declared

	if err != nil {
		return err
	}

	if _, err := u.vm.On.Conn.RedefineDomain(ctx, xml, u.before); err != nil {
		return fmt.Errorf("its definition still has %s: %w", s.Path, err)
	}

	if err := u.refresh(ctx); err != nil {
		return err
	}

	return u.discardMade(ctx)
}

// recorded returns the XML of a definition that was edited, with what recordIn records, and with the names of the
// running devices that it changes. before is the definition before that.
func (u *update) recorded(before, definition *domain.Definition) (string, error) {
	if err := u.recordIn(before, definition); err != nil {
		return "", err
	}

	if u.vm.Active {
		if err := definition.RecordRunning(before, u.want.Spec); err != nil {
			return "", &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrUnsupported, Err: err}
		}
	}

	xml, err := definition.XML()
	if err != nil {
		return "", &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	return xml, nil
}

// namedDefinition returns the VM's definition with the names of its running devices. A transient VM has no other
// definition than what runs, so that nothing else records the new keys of its devices.
func (u *update) namedDefinition() (*domain.Definition, error) {
	parsed := u.vm.Entry.Parse()

	before := parsed.Definition()
	if u.vm.Persistent || parsed.Live == nil {
		return before, nil
	}

	edited, _, err := u.edit(before)
	if err != nil {
		return nil, err
	}

	if err := edited.RecordRunning(before, u.want.Spec); err != nil {
		return nil, &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrUnsupported, Err: err}
	}

	named := before.Clone()
	named.AdoptNames(edited)

	return named, nil
}

// recordStarted records what the running VM was started with, of what only its definition says and the update changes
// there. It has no effect as long as the definition says the same.
func (u *update) recordStarted(ctx context.Context) error {
	if u.vm.LiveSpec == nil || u.goesDown() {
		return nil
	}

	started := domain.StartedBefore(*u.vm.LiveSpec, *u.vm.PersistentSpec, u.restart)
	if started == nil {
		return nil
	}

	live := *u.vm.LiveSpec
	live.Started = started

	return u.recordRun(ctx, live)
}

// recordRun records what is known of the run alone.
func (u *update) recordRun(ctx context.Context, live domain.Spec) error {
	return u.vm.On.Conn.SetMetadata(ctx, u.vm.UUID, domain.RunKey, domain.RunNamespace, live.RunXML(), libvirt.AffectLive)
}

// recordHeld records whether the guest holds a device that it was asked to release: a restart takes it away then.
func (u *update) recordHeld(ctx context.Context, path string, held bool) error {
	if u.vm.LiveSpec == nil || slices.Contains(u.vm.LiveSpec.Held, path) == held {
		return nil
	}

	if err := u.recordRun(ctx, u.vm.LiveSpec.Holding(path, held)); err != nil {
		return err
	}

	return u.refresh(ctx)
}

// takeBack defines the VM again as it was, if its definition was changed, unless its lock is lost. What this update has
// created for it goes, too. After an update that was interrupted it stays: the next one continues with it.
func (u *update) takeBack(ctx context.Context) error {
	interrupted := ctx.Err() != nil

	ctx, cancel := lease.GraceContext(ctx)
	defer cancel()

	if u.before != "" {
		if _, err := u.vm.On.Conn.RedefineDomain(ctx, u.before, u.before); err != nil {
			return fmt.Errorf("its definition was not restored: %w", err)
		}

		u.defined, u.before = false, ""

		if err := u.refresh(ctx); err != nil {
			return err
		}
	}

	if interrupted {
		return nil
	}

	return u.discardMade(ctx)
}

// edit returns what the configuration makes of a definition, and whether it changes it.
func (u *update) edit(current *domain.Definition) (edited *domain.Definition, changed bool, err error) {
	edited = current.Clone() // all readers of the snapshot share the parsed one

	spec := u.want.Spec
	spec.Name = "" // under another name the definition would be another VM's; see renameVM

	if live := u.vm.LiveSpec; live != nil && u.vm.Persistent {
		spec = spec.WithRunningMACs(*live, current.Spec())
	}

	if err := edited.Apply(spec); err != nil {
		return nil, false, &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	if u.want.GraphicsPassword != nil {
		edited.SetGraphicsPassword(*u.want.GraphicsPassword)
	}

	// Read from here, not when the update ends: a disk that is switched by hand meanwhile isn't applied.
	u.applied = edited.Spec().AppliedSources()

	return edited, current.Mended() || edited.Canonical() != current.Canonical(), nil
}

// readComplete reads the VM's definition with its secrets.
func (u *update) readComplete(ctx context.Context) (definition *domain.Definition, xml string, err error) {
	return readComplete(ctx, u.vm)
}

func readComplete(
	ctx context.Context, vm *inventory.VM,
) (definition *domain.Definition, xml string, err error) {
	if xml, err = vm.On.Conn.CompleteXML(ctx, vm.UUID); err != nil {
		return nil, "", err
	}

	definition, err = domain.Parse(xml)

	return definition, xml, err
}

// recordIn records in the definition what must be known if the update fails after it is written: what the running VM
// doesn't have yet, that its own disks are created, the sources of its disks, which of them all hosts share (other runs
// have to see that before the VM gets them), and whether the firmware variables were written by another firmware. The
// metadata of the running VM still has the sources that it runs with. writeMetadata writes both. before is the
// definition before the update.
func (u *update) recordIn(before, definition *domain.Definition) error {
	metadata := definition.Metadata()
	if live := u.vm.RunningSpec(u.want.Spec); live != nil && u.vm.Persistent {
		metadata.Unfinished = domain.UnfinishedBy(*live, before.Spec(), definition.Spec(), metadata.Unfinished)
	}

	metadata.Applied = u.applied
	metadata.OwnDisks = u.madeIn(definition, metadata.OwnDisks)
	shared := slices.Concat(metadata.SharedDisks, u.want.Metadata.SharedDisks)
	metadata.SharedDisks = slices.Compact(slices.Sorted(slices.Values(shared)))

	switch firmware := u.want.Spec.Firmware; {
	case before.Spec().Firmware.RequiresNVRAMReset(firmware):
		var running *domain.Firmware
		if u.vm.LiveSpec != nil {
			running = &u.vm.LiveSpec.Firmware
		}

		metadata = metadata.WithFirmware(before.Spec().Firmware, firmware, running)
	case !definition.Spec().HasNVRAM():
		metadata.FreshNVRAM = false
	}

	if err := definition.SetMetadata(metadata); err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrUnsupported, Err: err}
	}

	return nil
}
