package lifecycle

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// PasswordWhy says why the graphics of a running VM can't get a first password, or lose its password. An existing
// password can be replaced.
const PasswordWhy = "Whether the screen asks for a password is decided when the VM starts. Another one is set while " +
	"it runs."

// notePassword records whether the graphics has a password. If it gets its first password or loses it, it records the
// required restart.
func (u *update) notePassword(ctx context.Context) error {
	if u.want.GraphicsPassword == nil {
		return nil
	}

	if u.vm.Persistent {
		definition, _, err := u.readComplete(ctx)
		if err != nil {
			return err
		}

		u.hadPassword = definition.HasGraphicsPassword()
	}

	if u.hadPassword != (*u.want.GraphicsPassword != "") && u.want.UpdatePolicy != placement.PolicyStage && u.vm.Active {
		u.restart = append(u.restart, domain.Change{Path: "graphics_access", Why: PasswordWhy})
	}

	return nil
}

// changePassword replaces the password of the running VM's graphics. It does nothing if there is none, or if it is to
// be removed, which requires a restart.
func (u *update) changePassword(ctx context.Context) error {
	live := u.vm.Entry.Parse().Live
	if password := u.want.GraphicsPassword; password == nil || *password == "" || !u.hadPassword || live == nil {
		return nil
	}

	screen := live.Clone().SetGraphicsPassword(*u.want.GraphicsPassword)
	if screen == "" {
		return nil
	}

	u.manager.log.InfoContext(ctx, "changing running VM", "name", u.vm.Name, "host", u.vm.Host,
		"attribute", "graphics_access")

	if err := u.vm.On.Conn.UpdateDevice(ctx, u.vm.UUID, screen, libvirt.AffectLive); err != nil {
		return u.stepFailed(domain.Step{Path: "graphics_access"}, err)
	}

	return nil
}
