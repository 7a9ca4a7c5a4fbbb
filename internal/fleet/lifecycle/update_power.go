package lifecycle

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// changePower starts or stops the VM as its run strategy requires, and restarts it for changes that require that.
func (u *update) changePower(ctx context.Context) error {
	action := u.powerAction()
	starts := action == status.Start || u.restartsGuest() && action != status.Stop

	if starts {
		release, err := u.manager.placement.Admit(ctx, u.vm)
		if err != nil {
			return err
		}
		defer release()
	}

	if u.goesDown() {
		outcome, err := u.manager.Stop(ctx, u.vm, inventory.GracePeriod(u.want.Metadata))
		if err != nil {
			return err
		}

		u.stopped = outcome
		u.manager.log.InfoContext(ctx, "VM stopped", "name", u.vm.Name, "host", u.vm.Host, "outcome", string(outcome))

		if err := u.refresh(ctx); err != nil {
			return err
		}

		// The VM ran here until now, so it runs on no host that doesn't answer.
		u.vm.SilentHosts = nil
	}

	if err := u.renameVM(ctx); err != nil {
		return err
	}

	if !starts {
		return nil
	}

	if err := u.manager.Start(ctx, u.vm); err != nil {
		return err
	}

	u.fresh = !u.vm.ManagedSave

	if err := u.refresh(ctx); err != nil {
		return err
	}

	return u.awaitBootBalloon(ctx)
}

// renameVM renames the VM, which libvirt does only while it is off.
func (u *update) renameVM(ctx context.Context) error {
	if u.vm.Active || u.want.Spec.Name == "" || u.want.Spec.Name == u.vm.Name {
		return nil
	}

	if err := u.vm.On.Conn.RenameDomain(ctx, u.vm.UUID, u.want.Spec.Name); err != nil {
		return err
	}

	return u.refresh(ctx)
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
