package volume

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// privateReplaced is the key of the planned volume in private state. If Terraform then plans a new volume in its place,
// it is the volume that is removed before.
const privateReplaced = "replaced"

// NoteSaved records the volume of a state that Terraform saved. Before it plans, Terraform sends every saved state,
// even those that it doesn't have read.
func NoteSaved(data *meta.Data, req *tfprotov6.UpgradeResourceStateRequest) {
	var saved struct {
		Pool, Name string
		Host       string `json:"current_host"`
	}
	if data == nil || req.RawState == nil || json.Unmarshal(req.RawState.JSON, &saved) != nil || saved.Host == "" {
		return
	}
	data.Volumes.Saved(meta.SavedVolume{Pool: saved.Pool, Name: saved.Name, Host: saved.Host})
}

func (m *model) saved() meta.SavedVolume {
	return meta.SavedVolume{Pool: m.Pool.ValueString(), Name: m.Name.ValueString(), Host: m.CurrentHost.ValueString()}
}

// noteForReplacement records which volume is planned. With -replace, Terraform plans a new one next, whatever was
// planned.
func (r *volumeResource) noteForReplacement(ctx context.Context, state *model, resp *resource.ModifyPlanResponse) {
	saved := state.saved()
	r.Data.Volumes.Plans(saved)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateReplaced, saved)...)
}

// checkReplaced checks the volume that is removed before the new one is created. Of a volume that was planned before,
// Terraform shows only errors here, and no warnings.
func (r *volumeResource) checkReplaced(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	replaced, found, diags := r.replacedVolume(ctx, req)
	resp.Diagnostics.Append(diags...)
	if found {
		resp.Diagnostics.Append(r.checkReplacement(ctx, modelOf(replaced))...)
	}
}

// replacedVolume returns the volume that is removed before the planned one is created: one that Terraform has planned
// to replace, or a tainted one.
func (r *volumeResource) replacedVolume(
	ctx context.Context, req resource.ModifyPlanRequest,
) (replaced meta.SavedVolume, found bool, diags diag.Diagnostics) {
	found, diags = meta.ReadPrivate(ctx, req.Private, privateReplaced, &replaced)
	if found {
		return replaced, true, diags
	}
	var pool, name, host types.String
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("pool"), &pool)...)
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("host"), &host)...)
	if diags.HasError() {
		return replaced, false, diags
	}
	replaced, found = r.Data.Volumes.Tainted(pool.ValueString(), name.ValueString(), host.ValueString())
	return replaced, found, diags
}

func modelOf(v meta.SavedVolume) *model {
	return &model{
		Pool: types.StringValue(v.Pool), Name: types.StringValue(v.Name), CurrentHost: types.StringValue(v.Host),
	}
}

// checkReplacement returns why the volume can't be removed, or a warning that names what is lost with it and what still
// uses it. It returns nothing if the volume is gone, as it is when Terraform plans again during the apply.
func (r *volumeResource) checkReplacement(ctx context.Context, old *model) diag.Diagnostics {
	s := r.Data.Storage()
	host := old.CurrentHost.ValueString()
	answers := s.Volume(ctx, s.Hosts.Named(host), old.ref())
	found := hostset.Found(answers)
	if len(found) == 0 && len(hostset.Silent(answers)) == 0 {
		return nil
	}
	if len(found) > 0 {
		old.Path = types.StringValue(found[0].Value.Path)
	}
	if diags := r.checkRemoval(ctx, old); diags.HasError() || len(found) == 0 {
		return diags
	}
	hosts, err := s.UserHosts(ctx, host, old.Pool.ValueString())
	if err != nil {
		return diag.Diagnostics{old.removalFailure(host, err).Error()}
	}
	users, err := s.KnownUsers(ctx, hosts, *found[0].Value)
	if err != nil {
		return diag.Diagnostics{old.removalFailure(host, err).Error()}
	}
	detail := fmt.Sprintf("The apply deletes %s on host %q with all that is in it, and creates a new volume.",
		found[0].Value.Path, host)
	var names []string
	for _, u := range users {
		names = append(names, u.String())
	}
	if len(names) > 0 {
		detail += "\n\nNothing is deleted while it is in use, and the apply fails unless these are gone by then:\n  - " +
			strings.Join(names, "\n  - ") + "\n\nRemove it there first, or replace them in the same apply."
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Data is deleted with "+old.noun(), detail)}
}

// replacing are the attributes whose change requires a new volume.
var replacing = []string{"name", "pool", "format", "image", "clone", "copy_of", "preallocation", "encryption"}

// defaults are the values of attributes that aren't set. Writing one down changes nothing.
var defaults = map[string]tftypes.Value{
	"clone":         tftypes.NewValue(tftypes.String, cloneOverlay),
	"preallocation": tftypes.NewValue(tftypes.String, storage.PreallocationOff),
}

// replacements returns the attributes whose change replaces the existing volume by a new one, and those whose values
// are known after apply: these replace nothing, because they may turn out to be the same. as is what an import found
// out, nil for a volume that the provider created.
func replacements(planned, is map[string]tftypes.Value, as *importedAs) (names, unknown []string) {
	for _, name := range replacing {
		want, was := planned[name], is[name]
		if usual, ok := defaults[name]; ok {
			want, was = orDefault(want, usual), orDefault(was, usual)
		}
		secret := name == "encryption" && want.IsKnown() && want.IsNull() == was.IsNull() // Its data don't depend on that.
		raw := name == "format" && isRaw(want) && isRaw(was)
		switch {
		case secret, raw, want.Equal(was), as != nil && as.isDescribed(name, planned, is):
		case !want.IsKnown(), !want.IsFullyKnown() && !was.IsNull():
			unknown = append(unknown, name)
		default:
			names = append(names, name)
		}
	}
	return names, unknown
}

// keeping returns warnings for what may turn out to be other than it is in the existing volume: the values that are
// known after apply, and the passphrase of another secret.
func (m *model) keeping(unknown []string, planned, is map[string]tftypes.Value) (diags diag.Diagnostics) {
	for _, name := range unknown {
		diags.AddAttributeWarning(path.Root(name), "Volume may have to be created again", fmt.Sprintf(
			"%s of %s is known after apply. If it is the same then, the volume stays as it is. Otherwise the apply fails for "+
				"this volume, keeps its data, and the next plan shows that a new one replaces it.\n\nTo keep the volume in any "+
				"case, set lifecycle { ignore_changes = [%[1]s] }.", name, m.noun()))
	}
	const name = "encryption"
	if want, was := planned[name], is[name]; want.IsKnown() && !want.IsNull() && !was.IsNull() && !want.Equal(was) {
		diags.AddAttributeWarning(path.Root(name).AtName("secret"), keepsPassphrase, fmt.Sprintf(
			"%s is encrypted already. The passphrase that opens it doesn't change with encryption.secret: no VM can use it "+
				"unless the other secret has the same passphrase.\n\nTo create the volume again, without its data, run "+
				"\"terraform taint\" for it and apply.", m.noun()))
	}
	return diags
}

// keepsPassphrase is the title of the warnings that a volume isn't encrypted again.
const keepsPassphrase = "Volume keeps its passphrase"

// warnOfPassphrase warns if the secret of an encrypted volume gets another value. No host may know that the volume has
// that secret. A secret that the volume refers to is planned before it.
func (r *volumeResource) warnOfPassphrase(state *model) (diags diag.Diagnostics) {
	if state.Encryption != nil && r.Data.Planned.SecretValue(state.Encryption.Secret.ValueString()) {
		diags.AddAttributeWarning(path.Root("encryption").AtName("secret"), keepsPassphrase, fmt.Sprintf(
			"%s is encrypted already, and value_wo_version of its virtfleet_secret is new: the apply writes the value in the "+
				"configuration to all hosts. If that isn't the passphrase of the volume, no VM can open it any more.\n\nSet "+
				"value_wo_version as it was, unless you have changed the passphrase in the volume.", state.noun()))
	}
	return diags
}

// refuseInApply returns the errors for attributes that turned out to be other than they are in the existing volume. The
// plan, in which they were unknown, didn't show the new volume.
func (m *model) refuseInApply(names []string) (diags diag.Diagnostics) {
	for _, name := range names {
		diags.AddAttributeError(path.Root(name), recreated, fmt.Sprintf("%s of %s was unknown in the plan, and is another "+
			"one than the volume was created with. Nothing was removed.\n\nPlan again: the plan shows what is lost with a new "+
			"volume. To keep this one, set lifecycle { ignore_changes = [%[1]s] }.", name, m.noun()))
	}
	return diags
}

func orDefault(v, usual tftypes.Value) tftypes.Value {
	if v.IsNull() {
		return usual
	}
	return v
}

// recreated is the title of an error about a new volume that the user doesn't expect.
const recreated = "Volume would be created again"

// privateImported is the key in private state of importedAs.
const privateImported = "imported"

// importedAs is what an import found out about a volume, in addition to the state. How a volume was created isn't
// found out: attributes about that are null until they are declared, and declaring them doesn't replace the volume.
type importedAs struct{ Encrypted bool }

// readImported returns nil for a volume that wasn't imported.
func readImported(ctx context.Context, from meta.PrivateReader) (*importedAs, diag.Diagnostics) {
	var as importedAs
	found, diags := meta.ReadPrivate(ctx, from, privateImported, &as)
	if !found {
		return nil, diags
	}
	return &as, diags
}

// isDescribed reports whether the planned value of an attribute describes the imported volume, as far as that is known.
func (as *importedAs) isDescribed(name string, planned, is map[string]tftypes.Value) bool {
	switch name {
	case "copy_of", "preallocation":
		return is[name].IsNull()
	case "encryption":
		return as.Encrypted && (is[name].IsNull() || planned[name].IsNull()) // An import finds only some secrets.
	case "clone":
		return is[name].IsNull() && is["image"].IsNull() // It is an overlay if it is based on an image.
	case "image":
		// What a volume is based on is known, but not the pool of that image.
		was, want := refOf(textOf(is[name])), refOf(textOf(planned[name]))
		return is[name].IsNull() && textOf(planned["clone"]).ValueString() == cloneFull ||
			was != nil && want != nil && was.Name == want.Name
	default:
		return false
	}
}

// checkDescription returns errors if the only reason for a new volume is that the imported one isn't as it is described
// now. Whoever imports a volume wants to keep its data.
func (m *model) checkDescription(names []string, is map[string]tftypes.Value) (diags diag.Diagnostics) {
	// The format is what libvirt has found in the volume, so it is less certain than what the state has from an apply.
	if slices.ContainsFunc(names, func(name string) bool { return name != "format" && !is[name].IsNull() }) {
		return nil
	}
	for _, name := range names {
		diags.AddAttributeError(path.Root(name), recreated, fmt.Sprintf(
			"%s was imported, and isn't as %s says: it would be created again, without its data.\n\nTo keep it, remove "+
				"%[2]s. To create it again, run \"terraform taint\" for it and apply.", m.noun(), name))
	}
	return diags
}

// isRaw reports whether a format says that the content is raw: libvirt reports none of a logical volume.
func isRaw(format tftypes.Value) bool {
	text := textOf(format)
	return text.Equal(types.StringValue("")) || text.Equal(types.StringValue("raw"))
}

// textOf returns a text, null and unknown included.
func textOf(v tftypes.Value) types.String {
	var text *string
	if !v.IsKnown() || v.As(&text) != nil {
		return types.StringUnknown()
	}
	return types.StringPointerValue(text)
}

func attributes(object tftypes.Value) map[string]tftypes.Value {
	var all map[string]tftypes.Value
	_ = object.As(&all) // Plan and state are objects.
	return all
}
