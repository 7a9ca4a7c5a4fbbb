package virtualmachine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

const profileName = "profile"

func profileAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: "Virtual hardware that suits the guest of a new VM. One of " +
			value.OneOf(domain.ProfileNames()) + ". It sets [what you don't set](../guides/profiles.md). It changes " +
			"nothing of an existing VM.",
		Optional:   true,
		Validators: []validator.String{value.Among(domain.ProfileNames()...)},
	}
}

// withProfile returns the configuration of a new VM, completed with the settings of its profile and architecture for
// attributes that it doesn't declare.
func (m *model) withProfile() *model {
	filled := *m
	for _, s := range m.profileSettings() {
		if a := m.settingApplies(s); a != differs {
			to := s.Value
			if a == unknown {
				to = nil
			}
			name, steps, _ := strings.Cut(s.Path, ".")
			filled.set(name, withDefault(name, vmSchema.Attributes[name], filled.get(name), steps, to))
		}
	}
	return &filled
}

// profileSettings returns the settings of the VM's profile and architecture, with one setting for each device that it
// applies to.
func (m *model) profileSettings() []domain.Setting {
	var all []domain.Setting
	for _, s := range slices.Concat(domain.FindProfile(text(m.Profile)).Settings, domain.ArchSettings(text(m.Arch))) {
		kind, _, isKeyed := strings.Cut(s.Path, ".*.")
		if !isKeyed {
			all = append(all, s)
			continue
		}
		devices, _ := m.get(kind).(types.Map)
		for key := range elements(devices) {
			with := map[string]string{}
			for path, want := range s.With {
				with[strings.Replace(path, "*", key, 1)] = want
			}
			unless := make([]string, len(s.Unless))
			for i, path := range s.Unless {
				unless[i] = strings.Replace(path, "*", key, 1)
			}
			all = append(all, domain.Setting{
				Path: strings.Replace(s.Path, "*", key, 1), Value: s.Value, With: with, Unless: unless,
			})
		}
	}
	return all
}

// applicable says whether a setting applies to a VM.
type applicable int

const (
	differs applicable = iota
	unknown
	applies
)

// settingApplies reports whether a setting applies. It does if the attributes in With are declared with these values or
// not declared, and no attribute in Unless is declared.
func (m *model) settingApplies(s domain.Setting) applicable {
	is := applies
	for _, at := range s.Unless {
		switch v := m.lookUp(at); {
		case v == nil || v.IsNull():
		case v.IsUnknown():
			is = unknown
		default:
			return differs
		}
	}
	for at, want := range s.With {
		v, _ := m.lookUp(at).(types.String)
		switch {
		case v.IsUnknown():
			is = unknown
		case text(v) != "" && !domain.SameText(at, text(v), want):
			return differs
		}
	}
	return is
}

// withDefault returns an attribute with a value at the dotted steps below it, unless a value is declared there. A nil
// value means unknown.
func withDefault(at string, a schema.Attribute, v attr.Value, steps string, to any) attr.Value {
	if v.IsUnknown() {
		return v
	}
	name, rest, _ := strings.Cut(steps, ".")
	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		o, _ := v.(types.Object)
		all := open(o)
		if all == nil {
			all = nullAttributes(a.Attributes)
		}
		all[name] = withDefault(joinPath(at, name), a.Attributes[name], all[name], rest, to)
		return types.ObjectValueMust(attributeTypes(o), all)
	case schema.MapNestedAttribute:
		return declareDevice(at, a, v, name, rest, to)
	}
	if !v.IsNull() && !isLeftAlone(at, v) {
		return v
	}
	switch to := to.(type) {
	case string:
		return types.StringValue(to)
	case bool:
		return types.BoolValue(to)
	case int:
		return types.Int64Value(int64(to))
	default:
		return unknownLike(v)
	}
}

// declareDevice is withDefault for a map of devices. A declared map lists all devices, so it gets no further device.
func declareDevice(at string, a schema.MapNestedAttribute, v attr.Value, key, steps string, to any) attr.Value {
	devices, _ := v.(types.Map)
	all := devices.Elements()
	device, exists := all[key]
	t, isObject := elementType(devices).(types.ObjectType)
	if !isObject || !exists && !devices.IsNull() {
		return v
	}
	if !exists {
		device = types.ObjectNull(t.AttrTypes)
	}
	inner := schema.SingleNestedAttribute{Attributes: a.NestedObject.Attributes}
	device = withDefault(at+".*", inner, device, steps, to)
	if all == nil {
		all = map[string]attr.Value{}
	}
	all[key] = device
	return types.MapValueMust(t, all)
}

// nullAttributes returns null for each attribute of an object.
func nullAttributes(level attributes) map[string]attr.Value {
	all := make(map[string]attr.Value, len(level))
	for name, a := range level {
		all[name] = valueNull(a.GetType())
	}
	return all
}

// validateProfile returns errors for a profile that a new VM can't have.
func (m *model) validateProfile() diag.Diagnostics {
	var diags diag.Diagnostics
	if m.Profile.IsUnknown() {
		diags.AddAttributeError(path.Root(profileName), invalid, "The profile of a new VM must be known when it is planned: "+
			"what it sets is part of the plan.\n\nUse a value that doesn't depend on a resource that is yet to be created.")
	}
	arch := text(m.Arch)
	if domain.FindProfile(text(m.Profile)).X86 && !slices.Contains([]string{"", "x86_64", "i686"}, arch) {
		diags.AddAttributeError(path.Root(profileName), invalid, fmt.Sprintf(
			"The profile %q is for x86 only, and arch is %q.", text(m.Profile), arch))
	}
	return diags
}

// warnAboutProfile warns that a new profile doesn't change an existing VM.
func (p planning) warnAboutProfile() diag.Diagnostics {
	var diags diag.Diagnostics
	if isSet(p.config.Profile) && !p.config.Profile.Equal(p.state.Profile) {
		diags.AddAttributeWarning(path.Root(profileName), "Profile changes nothing of an existing virtual machine",
			fmt.Sprintf("The profile %q is for new VMs. Virtual machine %q exists and stays as it is.\n\n"+
				"To change it, declare the attributes themselves: the guide \"Profiles\" lists what each profile sets.",
				text(p.config.Profile), text(p.state.Name)))
	}
	return diags
}
