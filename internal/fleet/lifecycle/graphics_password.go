package lifecycle

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// PasswordWhy says why a running VM's screen can't get its first password, or lose it. A password that it has can be
// replaced.
const PasswordWhy = "Whether the screen asks for a password is decided when the VM starts. Another one is set while " +
	"it runs."

// notePassword notes whether the screen has a password, and the restart that the change requires if it gets its first
// one or loses it.
func (u *update) notePassword() {
	if u.want.GraphicsPassword == nil {
		return
	}

	persistent := u.vm.Entry.Parse().Persistent
	u.hadPassword = persistent != nil && persistent.HasGraphicsPassword()

	if u.hadPassword != (*u.want.GraphicsPassword != "") && u.want.UpdatePolicy != placement.PolicyStage && u.vm.Active {
		u.restart = append(u.restart, domain.Change{Path: "graphics_access", Why: PasswordWhy})
	}
}

// changePassword replaces the password of the running VM's screen. It does nothing if the screen has none or is to lose
// it, which requires a restart.
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
