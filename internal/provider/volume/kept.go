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

// privateDrifted is the key in private state of what refreshes found changed, by attribute: see drift.
const privateDrifted = "drifted"

// drift is what refreshes found changed of an attribute whose change replaces the volume.
type drift struct {
	// Before are the values that the attribute had before other tools changed it, oldest first.
	Before []string `json:"before"`
	// Unsaved says that the state had another value than the host when it was refreshed last.
	Unsaved bool `json:"unsaved"`
}

// noteDrift records what the image and the format were before the host had another one. before is the model of the
// state, after that of the host.
func noteDrift(ctx context.Context, private meta.PrivateReader, to meta.PrivateWriter, before, after *model) (
	diags diag.Diagnostics,
) {
	drifts := map[string]drift{}
	noted, diags := meta.ReadPrivate(ctx, private, privateDrifted, &drifts)
	for name, values := range map[string][2]types.String{
		"image": {before.Image, after.Image}, "format": {before.Format, after.Format},
	} {
		d, was := drifts[name], values[0].ValueString()
		d.Unsaved = values[1].ValueString() != was
		if d.Unsaved && !slices.Contains(d.Before, was) {
			d.Before = append(d.Before, was)
		}
		if len(d.Before) > 0 {
			drifts[name] = d
		}
	}
	if noted || len(drifts) > 0 {
		diags.Append(meta.WritePrivate(ctx, to, privateDrifted, drifts)...)
	}
	return diags
}

// withoutDrift returns the attributes whose change replaces the volume, without an image that is now called by its id.
// It returns errors for those that a refresh found changed, if the declared value is a former one, or if the state
// hasn't the changed one yet: what another tool does to a volume is no reason to delete its data.
func (m *model) withoutDrift(
	ctx context.Context, private meta.PrivateReader, names []string, planned, is map[string]tftypes.Value,
) (replaced []string, diags diag.Diagnostics) {
	var drifts map[string]drift
	_, diags = meta.ReadPrivate(ctx, private, privateDrifted, &drifts)
	for _, name := range names {
		d, found := drifts[name]
		want, have := textOf(planned[name]), textOf(is[name])
		wanted, has := refOf(want), refOf(have)
		switch {
		case found && name == "image" && wanted != nil && has != nil && wanted.Name == has.Name:
			continue
		case d.Unsaved, slices.Contains(d.Before, want.ValueString()):
			again := "" // What is found in a volume of the state's format raw may be what its guest has written.
			if name == "format" && !d.Unsaved && have.ValueString() == "raw" {
				again = fmt.Sprintf(", take the volume out of the state with \"terraform state rm\", and import it with the id "+
					"%q", m.CurrentHost.ValueString()+"/"+m.id())
			}
			diags.AddAttributeError(path.Root(name), recreated, fmt.Sprintf("%s on host %q had %s = %q. Another tool has "+
				"changed it, and now it has %q. A new volume would lack its data, so nothing is planned.\n\nTo keep the "+
				"volume, set %[3]s = %[5]q. Or change it back with the tool that changed it, such as qemu-img, while no VM "+
				"uses it; then run \"virsh pool-refresh %[6]s\" on the host%[7]s. To create it again without its data, run "+
				"\"terraform taint\" for it and apply.", m.noun(), m.CurrentHost.ValueString(), name,
				d.Before[len(d.Before)-1], have.ValueString(), m.Pool.ValueString(), again))
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
