package lifecycle

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// catchUp gives a VM that an interrupted Create left what the configuration declares now, as far as Desired.Hash, by
// which the VM is recognized, leaves it out: its metadata, what its run strategy decides and the password of its
// screen.
func (m *Manager) catchUp(
	ctx context.Context, vm *inventory.VM, d placement.Desired,
) (*inventory.VM, error) {
	password := ""
	if d.GraphicsPassword != nil {
		password = *d.GraphicsPassword
	}

	if err := m.correctPassword(ctx, vm, password); err != nil {
		return nil, err
	}

	if err := correctStrategy(ctx, vm, d); err != nil {
		return nil, err
	}

	metadata := d.StampOn(vm.Metadata)
	metadata.RunStrategy = d.Strategy()

	if _, err := records.WriteMetadata(ctx, vm, metadata); err != nil {
		return nil, err
	}

	return m.hosts.Refresh(ctx, vm)
}

// correctStrategy gives a VM that an interrupted Create left with another run strategy what a new VM has with the
// declared one: what happens when its guest crashes, and no autostart unless the strategy manages that, which
// makeDisksAndStart does.
func correctStrategy(ctx context.Context, vm *inventory.VM, d placement.Desired) error {
	was, is := vm.Metadata.RunStrategy, d.Strategy()
	if was == is {
		return nil
	}

	if _, managed := status.Autostart(is); !managed && vm.Autostart {
		if err := vm.On.Conn.SetAutostart(ctx, vm.UUID, false); err != nil {
			return err
		}
	}

	_, declared := d.Spec.Values[domain.OnCrash]
	if declared || status.RestartsCrashed(was) == status.RestartsCrashed(is) {
		return nil
	}

	affect := libvirt.AffectConfig
	if vm.Active {
		affect |= libvirt.AffectLive
	}

	return vm.On.Conn.SetLifecycleAction(ctx, vm.UUID, "on_crash", onCrash(is), affect)
}

// onCrash returns what happens when the guest of a new VM crashes, unless its configuration declares that.
func onCrash(strategy string) string {
	if status.RestartsCrashed(strategy) {
		return "restart"
	}

	return "destroy"
}

// correctPassword gives the screen of a VM that an interrupted Create left its password; "" removes it. It returns an
// error if the VM runs, and its screen can't get a first password, or lose its password.
func (m *Manager) correctPassword(ctx context.Context, vm *inventory.VM, password string) error {
	running, err := runningHasPassword(ctx, vm)
	if err != nil {
		return err
	}

	current, present, err := readComplete(ctx, vm)
	if err != nil {
		return err
	}

	definition := current.Clone()
	if definition.SetGraphicsPassword(password) == "" {
		return nil // There is no screen.
	}

	if vm.Active && running != (password != "") {
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
			Detail: "an interrupted creation left it, and it runs with another graphics_access, with a password or without " +
				"one. " + PasswordWhy,
			Remedy: fmt.Sprintf("Run \"virsh shutdown %s\" on host %q, or set graphics_access as it was.",
				domain.ShellWord(vm.Name), vm.Host),
			Next: inventory.Retry,
		}
	}

	if definition.Canonical() != current.Canonical() {
		xml, err := definition.XML()
		if err != nil {
			return &inventory.Error{VM: vm.Name, Host: vm.Host, Kind: inventory.ErrInvalid, Err: err}
		}

		if _, err := vm.On.Conn.RedefineDomain(ctx, xml, present); err != nil {
			return err
		}
	}

	if !vm.Active || password == "" {
		return nil
	}

	return m.replacePassword(ctx, vm, password)
}

// refuseSecondRun returns the error that a VM that an interrupted Create left isn't started, because its guest has run,
// or may have run, and its run strategy doesn't run it a second time. libvirt forgets that a guest ran when its daemon
// is restarted; the mark doesn't.
func refuseSecondRun(vm *inventory.VM, strategy string) error {
	if vm.Active || strategy != status.Once && strategy != status.RerunOnFailure ||
		status.PowerAction(strategy, vm.Status(), vm.Phase(), vm.StatusReason()) == status.Start {
		return nil
	}

	why := "its guest has run since it was created, and it is off"

	switch {
	case vm.Ran(), vm.ManagedSave:
	case vm.Metadata.Creating.Started && !vm.StartTried():
		why = "its guest may have run since it was created, and libvirt on its host no longer knows that"
	default:
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host,
		Detail: fmt.Sprintf("%s: with run_strategy %q it isn't started a second time", why, strategy),
		Remedy: fmt.Sprintf("If its guest is to run again, run \"virsh start %s\" on host %q.",
			domain.ShellWord(vm.Name), vm.Host),
	}
}

// markStarted records in the mark of a VM that is being created that its guest may have run, if its run strategy
// doesn't run it a second time.
func (m *Manager) markStarted(ctx context.Context, vm *inventory.VM) (*inventory.VM, error) {
	mark := vm.Metadata.Creating
	if mark == nil || mark.Started || vm.Metadata.RunStrategy != status.Once &&
		vm.Metadata.RunStrategy != status.RerunOnFailure {
		return vm, nil
	}

	metadata := vm.Metadata
	metadata.Creating = &domain.Creating{Owner: mark.Owner, SpecHash: mark.SpecHash, Since: mark.Since, Started: true}

	if _, err := records.WriteMetadata(ctx, vm, metadata); err != nil {
		return nil, err
	}

	return m.hosts.Refresh(ctx, vm)
}
