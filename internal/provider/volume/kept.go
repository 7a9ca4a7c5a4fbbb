package volume

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// privateDrifted is the key in private state of what attributes were before a refresh found the volume changed.
const privateDrifted = "drifted"

// noteDrift records what the image and the format were before the host had another one.
func noteDrift(ctx context.Context, private meta.PrivateReader, to meta.PrivateWriter, before, after *model) (
	diags diag.Diagnostics,
) {
	var was map[string]string
	_, diags = meta.ReadPrivate(ctx, private, privateDrifted, &was)
	drifted := map[string]string{}
	for name, values := range map[string][2]types.String{
		"image": {before.Image, after.Image}, "format": {before.Format, after.Format},
	} {
		old, noted := was[name]
		if !noted {
			old = values[0].ValueString()
		}
		if values[1].ValueString() != old {
			drifted[name] = old
		}
	}
	switch {
	case len(drifted) > 0:
		diags.Append(meta.WritePrivate(ctx, to, privateDrifted, drifted)...)
	case len(was) > 0:
		diags.Append(meta.WritePrivate(ctx, to, privateDrifted, nil)...)
	}
	return diags
}

// withoutDrift returns the attributes whose change replaces the volume, without an image that is now called by its id.
// It returns errors for those whose declared value hasn't changed: a refresh found the volume changed, which is no
// reason to delete its data.
func (m *model) withoutDrift(
	ctx context.Context, private meta.PrivateReader, names []string, planned, is map[string]tftypes.Value,
) (replaced []string, diags diag.Diagnostics) {
	var drifted map[string]string
	_, diags = meta.ReadPrivate(ctx, private, privateDrifted, &drifted)
	for _, name := range names {
		old, found := drifted[name]
		want, have := textOf(planned[name]), textOf(is[name])
		wanted, has := refOf(want), refOf(have)
		switch {
		case found && name == "image" && wanted != nil && has != nil && wanted.Name == has.Name:
			continue
		case found && want.ValueString() == old:
			diags.AddAttributeError(path.Root(name), recreated, fmt.Sprintf("%s on host %q had %s = %q. Another tool has "+
				"changed it, and now it has %q. A new volume would lack its data, so nothing is planned.\n\nTo keep the "+
				"volume, set %[3]s = %[5]q. Or change it back with the tool that changed it, such as qemu-img, while no VM "+
				"uses it; then run \"virsh pool-refresh %[6]s\" on the host. To create it again without its data, run "+
				"\"terraform taint\" for it and apply.", m.noun(), m.CurrentHost.ValueString(), name, old, have.ValueString(),
				m.Pool.ValueString()))
		}
		replaced = append(replaced, name)
	}
	return replaced, diags
}

// checkPermissions returns an error for changed permissions that the file doesn't have yet, with the commands that set
// them: libvirt sets permissions only when it creates a volume. What an import is given first describes the volume.
func (r *volumeResource) checkPermissions(
	ctx context.Context, plan tfsdk.Plan, state *model, as *importedAs,
) (diags diag.Diagnostics) {
	var want *permissionsModel
	if !attributes(plan.Raw)["permissions"].IsFullyKnown() {
		return nil // The apply plans again.
	}
	diags.Append(plan.GetAttribute(ctx, path.Root("permissions"), &want)...)
	was := state.Permissions
	if want == nil || was == nil && as != nil {
		return diags
	}
	if was == nil {
		was = &permissionsModel{}
	}
	s, host := r.Data.Storage(), state.CurrentHost.ValueString()
	f := state.failure("change the permissions of", host, nil)
	if len(want.commands(was, libvirt.Volume{}, "")) == 0 {
		return diags
	}
	answers := s.Volume(ctx, s.Hosts.Named(host), state.ref())
	for _, err := range hostset.Silent(answers) {
		f.Err = err
	}
	var have libvirt.Volume
	for _, a := range hostset.Found(answers) {
		have = *a.Value
	}
	commands := want.commands(was, have, state.Path.ValueString())
	if len(commands) == 0 {
		return diags
	}
	f.Happened = "libvirt sets permissions only when it creates a volume, and a new volume would lack the data of this one"
	f.Remedy = fmt.Sprintf("Shut down the VM that uses it: while it runs, the file belongs to QEMU's user. Then run %s "+
		"as root on host %q and apply: the plan then changes only the state, and the next one is empty.",
		strings.Join(commands, " and "), host)
	diags.Append(f.AttributeError(path.Root("permissions")))
	return diags
}

// commands returns the commands that give a file what is declared otherwise than it was, and what it doesn't have.
func (p *permissionsModel) commands(was *permissionsModel, have libvirt.Volume, file string) (commands []string) {
	lacks := func(want, was types.String, has string, base int) bool {
		return !want.IsNull() && !sameNumber(want.ValueString(), was.ValueString(), base) &&
			!sameNumber(want.ValueString(), has, base)
	}
	if lacks(p.Mode, was.Mode, have.Mode, 8) {
		commands = append(commands, fmt.Sprintf("\"chmod %s %s\"", p.Mode.ValueString(), file))
	}
	owner := ""
	if lacks(p.Owner, was.Owner, have.Owner, 10) {
		owner = p.Owner.ValueString()
	}
	if lacks(p.Group, was.Group, have.Group, 10) {
		owner += ":" + p.Group.ValueString()
	}
	if owner != "" { // It comes first, because chown clears bits of the mode.
		commands = slices.Insert(commands, 0, fmt.Sprintf("\"chown %s %s\"", owner, file))
	}
	return commands
}

// sameNumber reports whether texts are the same number, such as 0600 and 600.
func sameNumber(a, b string, base int) bool {
	x, errX := strconv.ParseUint(a, base, 32)
	y, errY := strconv.ParseUint(b, base, 32)
	return a == b || errX == nil && errY == nil && x == y
}
