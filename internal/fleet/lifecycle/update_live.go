package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// detachTimeout is how long a guest may take to release a device. It takes a second if the device is idle.
const detachTimeout = 30 * time.Second

// balloonTimeout is how long a guest may take to return or to accept memory. Its driver moves some hundred MiB a
// second.
const balloonTimeout = 30 * time.Second

// changeLive applies the changes that don't require a restart to the running VM.
func (u *update) changeLive(ctx context.Context) error {
	live := u.vm.Entry.Parse().Live
	if live == nil {
		return nil
	}

	if u.vm.LiveSpec.FixedVirtualPorts {
		live = live.FixVirtualPorts()
	}

	if u.want.AsksAgain(u.vm) {
		live = live.ForgetHeld()
	}

	persistent := u.vm.Entry.Parse().Persistent

	steps, err := domain.LiveSteps(live, u.was, persistent, u.want.Spec)
	if err == nil && len(steps) > 0 && persistent != nil {
		// A device that the running VM gets has what its definition has, secrets included.
		if persistent, _, err = u.readComplete(ctx); err != nil {
			return err
		}

		steps, err = domain.LiveSteps(live, u.was, persistent, u.want.Spec)
	}

	if err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	steps = slices.DeleteFunc(steps, func(s domain.Step) bool {
		return s.Kind == domain.Detach && slices.Contains(u.want.StaysRunning, s.Path)
	})

	for _, s := range steps {
		u.manager.log.InfoContext(ctx, "changing running VM", "name", u.vm.Name, "host", u.vm.Host,
			"attribute", s.Path, "step", s.Kind.String())

		if err := u.changeAttribute(ctx, s); err != nil {
			failed := u.stepFailed(ctx, s, err)
			if err := u.settle(ctx, s, err); err != nil {
				return errors.Join(failed, err)
			}

			return failed
		}

		if s.Kind == domain.Attach {
			if err := u.recordHeld(ctx, s.Path, false); err != nil {
				return err
			}
		}
	}

	if len(steps) == 0 {
		return nil
	}

	if err := u.refresh(ctx); err != nil || !slices.ContainsFunc(steps, domain.Step.Begins) {
		return err
	}

	u.was = u.vm.Entry.Parse().Persistent

	return u.changeLive(ctx)
}

// settle records what a device that the running VM wasn't given, or didn't release, means for its next start.
func (u *update) settle(ctx context.Context, s domain.Step, why error) error {
	if heldByGuest(s, why) && ctx.Err() == nil {
		return u.recordHeld(ctx, s.Path, true)
	}

	return u.withdraw(ctx, s, why)
}

// pluggedDisks returns the disks that the change gives to the running VM.
func (u *update) pluggedDisks() ([]domain.DiskUse, error) {
	live := u.vm.Entry.Parse().Live
	if live == nil || u.goesDown() {
		return nil, nil
	}

	before := u.vm.Entry.Parse().Definition()

	after, _, err := u.edit(before)
	if err == nil {
		err = u.recordIn(before, after)
	}

	if err != nil {
		return nil, err
	}

	steps, err := domain.LiveSteps(live, before, after, u.want.Spec)
	if err != nil {
		return nil, nil //nolint:nilerr // changeLive returns it, and plugs nothing in
	}

	have := live.DiskUses()

	return slices.DeleteFunc(after.DiskUses(), func(use domain.DiskUse) bool {
		isStep := func(s domain.Step) bool { return strings.HasPrefix(s.Path+".", "disks."+use.Key+".") }
		isHad := func(h domain.DiskUse) bool { return domain.SameDisk(h.Source, use.Source, true) }

		return use.NVDIMM || !slices.ContainsFunc(steps, isStep) || slices.ContainsFunc(have, isHad)
	}), nil
}

// changeAttribute applies one change to the running VM.
func (u *update) changeAttribute(ctx context.Context, s domain.Step) error {
	conn, id := u.vm.On.Conn, u.vm.UUID

	switch s.Kind {
	case domain.SetVcpus:
		return conn.SetVcpus(ctx, id, s.VCPUs, libvirt.AffectLive)
	case domain.SetMemory:
		if err := conn.SetMemory(ctx, id, s.Bytes, libvirt.AffectLive); err != nil {
			return err
		}

		if err := u.awaitBalloon(ctx, s.Bytes); err != nil {
			return errors.Join(err, u.trimMemory(ctx, s.Bytes))
		}

		return nil
	case domain.Attach:
		return conn.AttachDevice(ctx, id, s.XML, libvirt.AffectLive)
	case domain.Detach:
		ctx, cancel := context.WithTimeout(ctx, detachTimeout)
		defer cancel()

		return conn.DetachDevice(ctx, id, s.XML, libvirt.AffectLive)
	case domain.Update:
		s, err := u.supplied(ctx, s)
		if err != nil {
			return err
		}

		return conn.UpdateDevice(ctx, id, s.XML, libvirt.AffectLive)
	case domain.ChangeMedium:
		return conn.ChangeMedium(ctx, id, s.XML)
	case domain.SetTitle:
		return conn.SetTitle(ctx, id, s.Value, libvirt.AffectLive)
	case domain.SetDescription:
		return conn.SetDescription(ctx, id, s.Value, libvirt.AffectLive)
	case domain.SetLifecycle:
		return conn.SetLifecycleAction(ctx, id, strings.TrimPrefix(s.Path, "platform.events."), s.Value, libvirt.AffectLive)
	default:
		return u.tuneResources(ctx, s)
	}
}

// supplied completes the step with what its network supplies.
func (u *update) supplied(ctx context.Context, s domain.Step) (domain.Step, error) {
	if s.Network == "" {
		return s, nil
	}

	network, err := u.vm.On.Conn.Network(ctx, s.Network)
	if err != nil {
		return s, err
	}

	return s.Supplied(cmp.Or(network.LiveXML, network.PersistentXML))
}

// tuneResources changes which resources of the host the running VM may use.
func (u *update) tuneResources(ctx context.Context, s domain.Step) error {
	conn, id := u.vm.On.Conn, u.vm.UUID
	name := s.Path[strings.LastIndexByte(s.Path, '.')+1:]

	switch s.Kind {
	case domain.SetBlockIOTune:
		return conn.SetBlockIOTune(ctx, id, s.Target, domain.ParseTexts(s.Value), libvirt.AffectLive)
	case domain.SetScheduler:
		return conn.SetScheduler(ctx, id, name, s.Value, libvirt.AffectLive)
	case domain.PinVcpus:
		return conn.PinVcpus(ctx, id, domain.ParseTexts(s.Value), libvirt.AffectLive)
	case domain.PinEmulator:
		return conn.PinEmulator(ctx, id, s.Value, libvirt.AffectLive)
	case domain.PinIOThreads:
		return conn.PinIOThreads(ctx, id, domain.ParseTexts(s.Value), libvirt.AffectLive)
	case domain.SetIOThreads:
		return conn.SetIOThreads(ctx, id, domain.ParseNumbers(s.Value), domain.ParseNumbers(s.Was), libvirt.AffectLive)
	case domain.SetBlkioWeight:
		return conn.SetBlkioWeight(ctx, id, s.Value, libvirt.AffectLive)
	case domain.SetBlkioDevices:
		return conn.SetBlkioDevices(ctx, id, rowsOf(s.Value), rowsOf(s.Was), libvirt.AffectLive)
	case domain.SetMemoryLimit:
		return conn.SetMemoryLimits(ctx, id, domain.ParseTexts(s.Value), libvirt.AffectLive)
	case domain.SetStatsPeriod:
		return conn.SetStatsPeriod(ctx, id, s.Value, libvirt.AffectLive)
	default:
		return fmt.Errorf("unknown step %v: %w", s.Kind, inventory.ErrUnsupported)
	}
}

// rowsOf returns the rows of a table as libvirt's parameters by name.
func rowsOf(table string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for key, row := range domain.ParseTable(table) {
		all[key] = row
	}

	return all
}

func (u *update) stepFailed(ctx context.Context, s domain.Step, err error) error {
	secrets := slices.DeleteFunc(u.want.Spec.Secrets(), func(secret domain.HostSecret) bool {
		return s.Kind != domain.Attach || !strings.HasPrefix(secret.Attribute, s.Path+".")
	})
	e := &inventory.Error{
		VM: u.vm.Name, Host: u.vm.Host, Err: err, Detail: fmt.Sprintf("changing %s of the running VM", s.Path),
		Remedy: cmp.Or(inventory.LimitRemedy(err), placement.SecretRemedy(ctx, u.vm.On, secrets, err)),
	}
	if cause, ok := errors.AsType[*inventory.Error](err); ok {
		e.Remedy = cmp.Or(cause.Remedy, e.Remedy)
	}

	if s.Kind == domain.ChangeMedium && errors.Is(err, libvirt.ErrBusy) {
		e.Remedy = "The guest has locked the drive. Unmount or eject the medium in the guest, or stop the VM: then it " +
			"starts with the new medium."
		e.Next = inventory.Retry
	}

	if heldByGuest(s, err) {
		e.Remedy = "Only a guest whose operating system runs gives a device back. Wait until it does, or stop the VM: the " +
			"device is gone from what it starts with. Or set update_policy to \"Restart\" to have the VM restarted, or to " +
			"\"Stage\" to leave the device to its next start."
		e.Next = inventory.Retry
	}

	return e
}

// heldByGuest reports whether the guest was asked to release a device, and refused or didn't answer in time. It is
// false if the guest may not have been asked, as when the host was busy with another job.
func heldByGuest(s domain.Step, err error) bool {
	return s.Kind == domain.Detach && errors.Is(err, libvirt.ErrNotReleased)
}

// awaitBalloon waits until the guest has the declared amount of memory: libvirt only requests it, and the guest's
// balloon driver takes some time.
func (u *update) awaitBalloon(ctx context.Context, bytes uint64) error {
	ctx, cancel := context.WithTimeout(ctx, balloonTimeout)
	defer cancel()

	var size uint64

	_, err := inventory.Await(ctx, u.vm, func(d *libvirt.Domain) bool {
		if d == nil || !d.Active() {
			return true
		}

		spec := inventory.NewEntry(*d).Parse().LiveSpec
		if spec != nil && spec.Memory.Size != nil {
			size = *spec.Memory.Size
		}

		return size == bytes
	})
	if err != nil {
		return &inventory.Error{
			VM: u.vm.Name, Host: u.vm.Host, Kind: ErrNotReady, Err: err,
			Detail: fmt.Sprintf("the guest was told to have %s of memory and has %s", domain.FormatSize(bytes),
				domain.FormatSize(size)),
			Remedy: "See whether the guest has a virtio balloon driver; a restart gives it the memory in any case.",
		}
	}

	return nil
}

// trimMemory takes the memory beyond the VM's size out of its definition if the guest was told to have that size, and
// has kept everything that it was started with: its balloon has no driver. Otherwise it would have that memory after
// each restart as well.
func (u *update) trimMemory(ctx context.Context, bytes uint64) error {
	if err := u.refresh(ctx); err != nil {
		return err
	}

	if !u.vm.Active || !u.vm.Persistent || u.vm.LiveSpec == nil {
		return nil
	}

	is := u.vm.LiveSpec.Memory
	if is.Size == nil || is.Installed == nil || *is.Size != *is.Installed || *is.Size <= bytes {
		return nil
	}

	current, present, err := u.readComplete(ctx)
	if err != nil {
		return err
	}

	definition := current.Clone()
	if !definition.TrimMemory(u.want.Spec) {
		return nil
	}

	xml, err := definition.XML()
	if err != nil {
		return &inventory.Error{VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrInvalid, Err: err}
	}

	u.manager.log.InfoContext(ctx, "removing memory beyond the VM's size from its definition", "name", u.vm.Name,
		"host", u.vm.Host)

	_, err = u.vm.On.Conn.RedefineDomain(ctx, xml, present)

	return err
}

// awaitBootBalloon waits, after a start, until the guest has returned the memory beyond the VM's size: a guest boots
// with the maximum, which a refresh would report as drift. A guest without a balloon driver keeps it.
func (u *update) awaitBootBalloon(ctx context.Context) error {
	if u.vm.PersistentSpec == nil || u.vm.LiveSpec == nil {
		return nil
	}

	defined, is := u.vm.PersistentSpec.Memory, u.vm.LiveSpec.Memory
	if defined.Size == nil || is.Size == nil || is.Fixed || *is.Size <= *defined.Size {
		return nil
	}

	if err := u.awaitBalloon(ctx, *defined.Size); err != nil {
		u.manager.log.WarnContext(ctx, "the guest keeps memory beyond the VM's size", "name", u.vm.Name, "host", u.vm.Host,
			"error", err)
	}

	return u.refresh(ctx)
}
