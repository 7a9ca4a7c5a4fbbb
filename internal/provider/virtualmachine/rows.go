package virtualmachine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Groups of attributes that are plain data in the domain package. The schema, the mapping and the plan all follow from
// them. They are read only if a user declared or imported them, so that a plan shows nothing else.

// containers are the attributes that only hold groups, such as "devices".
var containers = map[string]string{
	"devices": "Devices other than disks and interfaces. What isn't set isn't changed. To remove a single device, such " +
		"as `rng`, set its `model` to `none`; of `graphics`, the `type`; of `smartcard`, the `mode`.",
	"platform": "Clock, Hyper-V enlightenments and other features of the virtual hardware.",
}

// rowAttributes are the schema attributes of the groups, by the first step of their path.
var rowAttributes = func() attributes {
	all := attributes{}
	held := map[string]attributes{}
	for _, g := range domain.Groups {
		if g.Block {
			continue
		}
		level := schemaOfRows(g.Path, g.Attributes)
		if g.Device != "" {
			model := g.Attributes[0]
			model.Unset = domain.None
			level[model.Name] = rowAttribute(kindOf(g.Path), model)
		}
		switch container, name, nestedTwice := strings.Cut(g.Path, "."); {
		case g.Path == "":
			maps.Copy(all, level)
		case containers[container] != "":
			if held[container] == nil {
				held[container] = attributes{}
			}
			if nestedTwice {
				level = attributes{name: nestedAttribute(g.Doc, level, objectType(level))}
			}
			maps.Copy(held[container], level)
		default:
			all[g.Path] = nestedAttribute(g.Doc, level, objectType(level))
		}
	}
	for _, f := range domain.Families {
		container, name, _ := strings.Cut(f.Path, ".")
		held[container][name] = familyAttribute(f)
	}
	for name, level := range held {
		all[name] = nestedAttribute(containers[name], level, objectType(level))
	}
	return all
}()

// kindOf returns the kind of thing whose new ones have the default of the attribute.
func kindOf(path string) string {
	switch first, _, _ := strings.Cut(path, "."); first {
	case "disks", "interfaces", "devices":
		return first
	default:
		return "VMs"
	}
}

// defaultOf returns the beginning of the sentence about a default. kind is "" for tables, whose rows have the default
// whenever they are declared.
func defaultOf(kind string) string {
	if kind == "" {
		return "Default: "
	}
	return "Default for new " + kind + ": "
}

// oldestMajor is the major version of the oldest libvirt that the provider supports, 8.0.0. The pages don't tell what
// that one has.
const oldestMajor = 8

// isRecent reports whether the oldest supported libvirt lacks what libvirt has since the version; "": it has it.
func isRecent(version string) bool {
	first, rest, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	return err == nil && (major > oldestMajor || major == oldestMajor && rest != "0.0")
}

// rowAttribute returns the schema of one attribute. kind is the kind of thing whose new ones have the default.
func rowAttribute(kind string, a domain.Attribute) schema.Attribute {
	doc := a.Doc
	if a.Kind == domain.Text && len(a.Values) > 0 {
		values := slices.Clone(a.Values)
		if a.Unset != "" {
			values = append(values, a.Unset)
		}
		doc += " One of " + value.OneOf(values) + "."
	}
	if isRecent(a.Since) {
		doc += " Requires libvirt " + a.Since + "."
	}
	words := a.DefaultDoc
	if a.Default != "" && words == "" {
		words = "`" + a.Default + "`"
	}
	if words != "" {
		doc += " " + defaultOf(kind) + words + "."
	}
	if a.Recorded {
		return schema.StringAttribute{MarkdownDescription: doc, Optional: true}
	}
	switch a.Kind {
	case domain.Count:
		return optionalInt(doc)
	case domain.Switch, domain.Flag:
		return optionalBool(doc)
	case domain.Amount:
		kind := value.WholeKiBType
		if a.Zero {
			kind = value.WholeKiBOrZeroType
		}
		return schema.StringAttribute{MarkdownDescription: doc, CustomType: kind, Optional: true, Computed: true}
	case domain.Numbers:
		return schema.ListAttribute{MarkdownDescription: doc, ElementType: types.Int64Type, Optional: true, Computed: true}
	case domain.Table:
		return tableAttribute(a, doc)
	case domain.Words:
		return schema.ListAttribute{MarkdownDescription: doc, ElementType: types.StringType, Optional: true, Computed: true}
	case domain.Switches:
		return schema.MapAttribute{MarkdownDescription: doc, ElementType: types.BoolType, Optional: true, Computed: true}
	case domain.Texts:
		return schema.MapAttribute{MarkdownDescription: doc, ElementType: types.StringType, Optional: true, Computed: true}
	default:
		return optionalString(doc)
	}
}

// quiet are the attributes that stay null if they aren't declared, instead of becoming known after apply.
var quiet = func() map[string]bool {
	paths := map[string]bool{}
	for name := range containers {
		paths[name] = true
	}
	for path, level := range blockLevels {
		walkRows(path, level, func(path string, _ schema.Attribute) { paths[path] = true })
	}
	for _, g := range domain.Groups {
		if g.Block {
			continue
		}
		paths[g.Path] = g.Path != ""
		for _, a := range g.Attributes {
			if g.Path == "" || !a.Filled {
				paths[g.At(a)] = true
			}
		}
	}
	for _, f := range domain.Families {
		paths[f.Path] = true
		for _, a := range f.Attributes {
			paths[f.At(a)] = !a.Filled
		}
	}
	return paths
}()

// rows are the attributes of all groups by path.
var rows = func() map[string]domain.Attribute {
	all := map[string]domain.Attribute{}
	for _, g := range domain.Groups {
		for _, a := range g.Attributes {
			all[g.At(a)] = a
			for _, column := range a.Columns {
				all[joinPath(g.Path, a.At(column))] = column
			}
		}
	}
	for _, f := range domain.Families {
		for _, a := range f.Attributes {
			all[f.At(a)] = a
		}
	}
	for path, rows := range blockRows {
		for _, a := range rows {
			all[joinPath(path, a.Name)] = a
		}
	}
	return all
}()

// deviceModels maps the path of a device to the name of the attribute that says whether the VM has the device.
var deviceModels = func() map[string]string {
	all := map[string]string{}
	for _, g := range domain.Groups {
		if g.Device != "" {
			all[g.Path] = g.Attributes[0].Name
		}
	}
	return all
}()

// emptyIsNothing reports whether "" declares that there is no value. For attributes with a choice of values, and those
// that libvirt fills in, "" means the same as null.
func emptyIsNothing(path string) bool {
	a, ok := rows[path]
	return ok && a.Kind == domain.Text && a.Values == nil && !a.Filled
}

var rowsBlock = block{
	toDomain: func(m, _ *model, s *domain.Spec) {
		for name := range rowAttributes {
			collectValues(&s.Values, name, "", m.get(name))
		}
		collectFamilies(m, s)
	},
	fromDomain: func(m *model, s domain.Spec, _ observation, prior *model) {
		everything := prior.Name.IsNull() // The VM is being imported.
		for name, a := range rowAttributes {
			m.set(name, rowReader{facts: s.Values, spec: s}.readAttribute(name, a, prior.get(name), everything))
		}
	},
	planDependent: func(planned, config, prior *model) {
		for name := range containers {
			held, _ := planned.get(name).(types.Object)
			declared, _ := config.get(name).(types.Object)
			if !isSet(held) || !isSet(declared) {
				continue // Undeclared values stay as they were.
			}
			before, _ := prior.get(name).(types.Object)
			planned.set(name, planGroups(name, declared, held, before))
		}
	},
}

// planGroups plans the devices of a container.
func planGroups(container string, config, planned, prior types.Object) types.Object {
	declared, inner, was := open(config), open(planned), open(prior)
	changed := false
	for _, g := range domain.Groups {
		holder, name, nestedTwice := strings.Cut(g.Path, ".")
		if g.Device == "" || !nestedTwice || holder != container {
			continue
		}
		if settled, changes := planGroup(g, declared.object(name), inner.object(name), was.object(name)); changes {
			inner[name], changed = settled, true
		}
	}
	if !changed {
		return planned
	}
	return types.ObjectValueMust(rowTypes[container], inner)
}

// collectValues adds the facts that a value declares. strip is the prefix of an attribute's path that its fact doesn't
// have.
func collectValues(into *domain.Values, path, strip string, v attr.Value) {
	if !isSet(v) {
		return
	}
	var fact string
	switch v := v.(type) {
	case types.Object:
		undeclared := true
		for name, v := range open(v) {
			if isSet(v) {
				collectValues(into, joinPath(path, name), strip, v)
			}
			undeclared = undeclared && v.IsNull()
		}
		model, isDevice := deviceModels[path]
		if !undeclared || !isDevice {
			return
		}
		path, fact = joinPath(path, model), domain.Any
	case types.Int64:
		fact = strconv.FormatInt(v.ValueInt64(), 10)
	case types.Bool:
		fact = "no"
		if v.ValueBool() {
			fact = "yes"
		}
	case types.String:
		if fact = v.ValueString(); fact == "" && !emptyIsNothing(path) {
			return
		}
	case value.Quantity:
		if v.Bytes() == nil {
			return
		}
		fact = strconv.FormatUint(*v.Bytes(), 10)
	case types.List, types.Map:
		if _, isFamily := families[path]; isFamily || !isKnown(v) {
			return
		}
		if table, ok := v.(types.Map); ok && rows[path].Kind == domain.Table {
			fact = domain.FormatTable(declaredRows(path, table))
		} else {
			fact = collectionFact(v)
		}
	}
	if *into == nil {
		*into = domain.Values{}
	}
	(*into)[strings.TrimPrefix(path, strip)] = fact
}

// rowReader reads facts. strip is the prefix of an attribute's path that its fact doesn't have.
type rowReader struct {
	facts domain.Values
	// spec has the devices of the families.
	spec  domain.Spec
	strip string
}

// readAttribute returns the observed value of an attribute that was declared or imported, and null for others.
func (r rowReader) readAttribute(path string, a schema.Attribute, prior attr.Value, everything bool) attr.Value {
	if !everything && (prior == nil || prior.IsNull()) {
		return rowNulls[path]
	}
	if f, isFamily := families[path]; isFamily {
		before, _ := prior.(types.Map)
		return familyFromDomain(f, r.spec, before, everything || before.IsUnknown())
	}
	level, isObject := a.(schema.SingleNestedAttribute)
	if !isObject {
		return rowValue(path, r.facts[strings.TrimPrefix(path, r.strip)])
	}
	before, _ := prior.(types.Object)
	was := open(before)
	everything = everything || before.IsUnknown()
	_, container := containers[path]
	container = container || blockParts[path]
	_, isDevice := deviceModels[path]
	there := !isDevice && !before.IsNull() && !everything // Anything but a device stays as declared, even empty.
	values := map[string]attr.Value{}
	for name, a := range level.Attributes {
		// All attributes of an existing device are read, and all that libvirt fills in.
		at := joinPath(path, name)
		whole := everything || isDevice || !container && rows[at].Filled
		values[name] = r.readAttribute(at, a, was[name], whole)
		there = there || !values[name].IsNull()
	}
	if model := deviceModels[path]; isDevice && !there && text(was.string(model)) == domain.None {
		values[model], there = types.StringValue(domain.None), true
	}
	if !there {
		return rowNulls[path]
	}
	return types.ObjectValueMust(rowTypes[path], values)
}

// planGroup plans the undeclared attributes of a device, and reports whether that changes anything. A device that is
// removed has none. A device that is added has those that libvirt fills in.
func planGroup(g domain.Group, config, planned, prior types.Object) (settled types.Object, changes bool) {
	if !isSet(config) || !isSet(planned) {
		return planned, false
	}
	declared, all, was := open(config), open(planned), open(prior)
	model := g.Attributes[0].Name
	gone := text(all.string(model)) == domain.None
	comes := was == nil || text(was.string(model)) == domain.None
	for _, a := range g.Attributes {
		if !declared[a.Name].IsNull() {
			continue
		}
		switch {
		case !gone && !comes:
			continue
		case !gone && a.Filled:
			all[a.Name] = unknownLike(all[a.Name])
		default:
			all[a.Name] = nullLike(all[a.Name])
		}
		changes = true
	}
	if !changes {
		return planned, false
	}
	return types.ObjectValueMust(attributeTypes(planned), all), true
}
