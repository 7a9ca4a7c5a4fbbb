package virtualmachine

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// Attributes that get their meaning from another one: what becomes of them when that one changes.

// follower is an attribute that gets its meaning from another one. Both paths are those of the schema.
type follower struct {
	domain.Attribute

	path, follows []string
	// model is the path of the device's model, nil if the attribute isn't that of a device.
	model []string
}

// followers are the followers of all groups and families, by the first step of their path. * in a path is any key.
var followers = func() map[string][]follower {
	all := map[string][]follower{}
	for _, g := range domain.Groups {
		for _, a := range g.Attributes {
			if a.Follows == "" {
				continue
			}
			f := follower{
				Attribute: a, path: strings.Split(g.At(a), "."), follows: strings.Split(joinPath(g.Path, a.Follows), "."),
			}
			if g.Device != "" {
				f.model = strings.Split(g.At(g.Attributes[0]), ".")
			}
			all[f.path[0]] = append(all[f.path[0]], f)
		}
	}
	for _, family := range domain.Families {
		for _, a := range family.Attributes {
			if a.Follows == "" {
				continue
			}
			f := follower{
				Attribute: a, path: strings.Split(family.At(a), "."),
				follows: strings.Split(family.At(domain.Attribute{Name: a.Follows}), "."),
			}
			all[f.path[0]] = append(all[f.path[0]], f)
		}
	}
	return all
}()

// each returns the follower of each device of its family in the value; that of a group is the only one.
func (f follower) each(v attr.Value) []follower {
	key := slices.Index(f.path, "*")
	if key < 0 {
		return []follower{f}
	}
	devices, _ := valueAt(v, f.path[1:key]).(types.Map)
	var all []follower
	for name := range devices.Elements() {
		one := f
		one.path, one.follows = slices.Clone(f.path), slices.Clone(f.follows)
		one.path[key], one.follows[key] = name, name
		all = append(all, one)
	}
	return all
}

// planFollowing plans that an undeclared attribute has no value, or one that libvirt fills in, if the attribute changes
// from which it gets its meaning.
func planFollowing(planned, config, prior *model) {
	for name, all := range followers {
		declared, now, was := config.get(name), planned.get(name), prior.get(name)
		if !isSet(declared) || !isSet(now) || sameValue(now, was) {
			continue // Undeclared values stay as they were, and those that follow from values without changes.
		}
		for _, f := range all {
			for _, one := range f.each(now) {
				if one.isOutdated(declared, now, was) {
					now = one.planAgain(now)
				}
			}
		}
		planned.set(name, now)
	}
}

// isOutdated reports whether the attribute isn't declared, and the one that it follows changes.
func (f follower) isOutdated(declared, planned, prior attr.Value) bool {
	was, follows := valueAt(prior, f.follows[1:]), valueAt(planned, f.follows[1:])
	if was == nil || follows == nil || follows.Equal(was) {
		return false
	}
	if v := valueAt(declared, f.path[1:]); v == nil || !v.IsNull() {
		return false
	}
	// If the device goes, it goes with all its values.
	return f.model == nil || !valueAt(planned, f.model[1:]).Equal(types.StringValue(domain.None))
}

// planAgain returns what is planned, with no value for the attribute, or one that libvirt fills in.
func (f follower) planAgain(planned attr.Value) attr.Value {
	follows := valueAt(planned, f.follows[1:])
	return replaceAt(planned, f.path[1:], func(v attr.Value) attr.Value {
		if f.Filled || follows.IsUnknown() && !v.IsNull() {
			return unknownLike(v)
		}
		return nullLike(v)
	})
}

// withFollowed completes the declared devices with what the VM has of attributes that others follow: a filesystem
// without a driver has the driver that it had.
func withFollowed(declared domain.Spec, planned *model) {
	var all domain.Spec
	collectFamilies(planned, &all)
	for _, f := range domain.Families {
		now := f.Of(all)
		for _, a := range f.Attributes {
			if a.Follows == "" {
				continue
			}
			for key, row := range f.Of(declared) {
				if is := now[key][a.Follows]; row[a.Follows] == "" && is != "" {
					row[a.Follows] = is
				}
			}
		}
	}
}

// valueAt returns a value inside of nested objects and maps, and nil if one of them isn't there.
func valueAt(v attr.Value, steps []string) attr.Value {
	for _, step := range steps {
		if m, isMap := v.(types.Map); isMap {
			v = m.Elements()[step]
			continue
		}
		o, _ := v.(types.Object)
		v = open(o)[step]
	}
	return v
}

// replaceAt replaces a value inside of nested objects and maps.
func replaceAt(v attr.Value, steps []string, replacement func(attr.Value) attr.Value) attr.Value {
	if len(steps) == 0 {
		return replacement(v)
	}
	if m, isMap := v.(types.Map); isMap {
		inner := m.Elements()
		if _, there := inner[steps[0]]; !there {
			return v
		}
		inner[steps[0]] = replaceAt(inner[steps[0]], steps[1:], replacement)
		return types.MapValueMust(elementType(m), inner)
	}
	o, ok := v.(types.Object)
	if !ok || !isSet(o) {
		return v
	}
	inner := open(o)
	inner[steps[0]] = replaceAt(inner[steps[0]], steps[1:], replacement)
	return types.ObjectValueMust(attributeTypes(o), inner)
}
