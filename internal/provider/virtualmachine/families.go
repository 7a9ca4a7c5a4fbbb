package virtualmachine

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// Families of devices with keys, which rows in the domain package describe. Like groups they are read only if they are
// declared or imported. A declared map is read as a whole, so that the plan shows devices that another tool added.

// families are all families by path.
var families = func() map[string]domain.Family {
	all := map[string]domain.Family{}
	for _, f := range domain.Families {
		all[f.Path] = f
	}
	return all
}()

// familyPaths returns the paths of the maps whose next step is a key.
func familyPaths() []string {
	paths := make([]string, len(domain.Families))
	for i, f := range domain.Families {
		paths[i] = f.Path
	}
	return paths
}

// familyAttribute returns the schema of a family.
func familyAttribute(f domain.Family) schema.MapNestedAttribute {
	level := attributes{}
	for _, a := range f.Attributes {
		level[a.Name] = rowAttribute(kindOf(f.Path), a)
	}
	t := objectType(level)
	return schema.MapNestedAttribute{
		MarkdownDescription: f.Doc,
		NestedObject:        schema.NestedAttributeObject{Attributes: level, CustomType: t},
		CustomType:          types.MapType{ElemType: t},
		Optional:            true,
		Computed:            true,
	}
}

// collectFamilies adds the devices that are declared, as far as they are known.
func collectFamilies(m *model, s *domain.Spec) {
	opened := map[string]object{}
	for path, f := range families {
		container, name, _ := strings.Cut(path, ".")
		if _, ok := opened[container]; !ok {
			held, _ := m.get(container).(types.Object)
			opened[container] = open(held)
		}
		devices := opened[container].stringMap(name)
		if !isSet(devices) || slices.ContainsFunc(slices.Collect(maps.Values(devices.Elements())), func(v attr.Value) bool {
			return v.IsUnknown() // Its values are unknown, so nothing is declared.
		}) {
			continue
		}
		f.Declare(s, declaredRows(path, devices))
	}
}

// declaredRows returns what a map of objects declares, by key.
func declaredRows(path string, devices types.Map) map[string]domain.Row {
	all := map[string]domain.Row{}
	for key, o := range elements(devices) {
		facts := domain.Values{}
		for name, v := range open(o) {
			collectValues(&facts, path+".*."+name, path+".*.", v)
		}
		all[key] = domain.Row(facts)
	}
	return all
}

// familyFromDomain returns the devices of a family that was declared or imported.
func familyFromDomain(f domain.Family, s domain.Spec, prior types.Map, everything bool) attr.Value {
	found := f.Of(s)
	if len(found) == 0 && (everything || prior.IsNull() || len(prior.Elements()) > 0) {
		return rowNulls[f.Path]
	}
	was := elements(prior)
	elementTypes := familyTypes[f.Path].AttrTypes
	devices := map[string]attr.Value{}
	for key, row := range found {
		before, known := was[key]
		opened, values := open(before), map[string]attr.Value{}
		for _, a := range f.Attributes {
			declared := opened[a.Name]
			// A fact that only we record is set by the configuration alone, as host is.
			whole := (everything || !known || a.Filled) && !a.Recorded
			if !whole && (declared == nil || declared.IsNull()) {
				values[a.Name] = valueNull(elementTypes[a.Name])
				continue
			}
			values[a.Name] = rowValue(f.At(a), row[a.Name])
		}
		devices[key] = types.ObjectValueMust(elementTypes, values)
	}
	return types.MapValueMust(familyTypes[f.Path], devices)
}

// familyTypes are the types of the devices of families, by path.
var familyTypes = func() map[string]types.ObjectType {
	all := map[string]types.ObjectType{}
	for _, f := range domain.Families {
		level := attributes{}
		for _, a := range f.Attributes {
			level[a.Name] = rowAttribute(kindOf(f.Path), a)
		}
		all[f.Path] = objectType(level)
	}
	return all
}()
