package lifecycle

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// power brings the VM's power to what the run strategy asks for, and
// restarts it for what it could not be given while it ran.
func (u *update) power(ctx context.Context) error {
	action := u.action()
	starts := action == status.Start || u.restarts() && action != status.Stop

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

		// It ran here until now, so it runs on no host that is silent.
		u.vm.SilentHosts = nil
	}

	if err := u.rename(ctx); err != nil {
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

// rename gives the VM its new name, which libvirt does only while it is off.
func (u *update) rename(ctx context.Context) error {
	if u.vm.Active || u.want.Spec.Name == "" || u.want.Spec.Name == u.vm.Name {
		return nil
	}

	if err := u.vm.On.Conn.RenameDomain(ctx, u.vm.UUID, u.want.Spec.Name); err != nil {
		return err
	}

	return u.refresh(ctx)
}

// wake continues a VM that the run strategy wants running.
func (u *update) wake(ctx context.Context) error {
	var err error

	switch u.action() {
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

func (u *update) autostart(ctx context.Context) error {
	on, managed := status.Autostart(u.want.Metadata.RunStrategy)
	if !managed || on == u.vm.Autostart || !u.vm.Persistent || u.evicted {
		return nil
	}

	return u.vm.On.Conn.SetAutostart(ctx, u.vm.UUID, on)
}
