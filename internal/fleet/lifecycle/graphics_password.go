package lifecycle

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// PasswordWhy says why the graphics of a running VM can't get a first password, or lose its password. An existing
// password can be replaced.
const PasswordWhy = "Whether the screen asks for a password is decided when the VM starts. Another one is set while " +
	"it runs."

// passwordChange is how far an update has come with the password that it was to set or to remove.
type passwordChange struct {
	// ran says that the VM ran when the update began. had says that its screen required a password then.
	ran, had bool
	// defined says that the definition is as declared. live says that the running VM is, as far as it can be.
	defined, live bool
}

// notePassword records whether the graphics of the running VM has a password. If it gets its first password or loses
// it, notePassword records the required restart.
func (u *update) notePassword(ctx context.Context) error {
	if u.want.GraphicsPassword == nil {
		return nil
	}

	var err error

	u.password.ran = u.vm.Active
	if u.password.had, err = runningHasPassword(ctx, u.vm); err != nil {
		return err
	}

	if u.vm.Active && u.password.had != (*u.want.GraphicsPassword != "") && u.want.UpdatePolicy != placement.PolicyStage {
		u.restart = append(u.restart, domain.Change{Path: "graphics_access", Why: PasswordWhy})
	}

	return nil
}

// notePasswordDefined records that the definition has the password.
func (u *update) notePasswordDefined(context.Context) error {
	u.password.defined = true

	return nil
}

// changePassword replaces the password of the running VM's graphics. It does nothing if there is none, or if it is to
// be removed, which requires a restart.
func (u *update) changePassword(ctx context.Context) error {
	if password := u.want.GraphicsPassword; password != nil && *password != "" && u.password.had {
		if err := u.manager.replacePassword(ctx, u.vm, *password); err != nil {
			return u.stepFailed(ctx, domain.Step{Path: "graphics_access"}, err)
		}
	}

	u.password.live = true

	return nil
}

// passwordSet reports whether the update, which may have failed, has changed the password as declared. now is the VM as
// the update left it: after a stop, it has what its definition has.
func (u *update) passwordSet(now *inventory.VM) bool {
	p := u.password

	return p.defined && (p.live || !p.ran || !now.Active || u.stopped != "")
}

// replacePassword replaces the password of the running VM's graphics.
func (m *Manager) replacePassword(ctx context.Context, vm *inventory.VM, password string) error {
	live := vm.Entry.Parse().Live
	if live == nil {
		return nil
	}

	screen := live.Clone().SetGraphicsPassword(password)
	if screen == "" {
		return nil
	}

	m.log.InfoContext(ctx, "changing running VM", "name", vm.Name, "host", vm.Host, "attribute", "graphics_access")

	return vm.On.Conn.UpdateDevice(ctx, vm.UUID, screen, libvirt.AffectLive)
}

// runningHasPassword reports whether the graphics of the running VM requires a password. The definition may have
// another one, or none, until the VM starts again.
func runningHasPassword(ctx context.Context, vm *inventory.VM) (bool, error) {
	if !vm.Active {
		return false, nil
	}

	xml, err := vm.On.Conn.MigratableXML(ctx, vm.UUID)
	if err != nil {
		return false, err
	}

	running, err := domain.Parse(xml)
	if err != nil {
		return false, err
	}

	return running.HasGraphicsPassword(), nil
}
