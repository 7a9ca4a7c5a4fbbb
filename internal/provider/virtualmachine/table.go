package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// tablePaths returns the paths of the tables, whose next step is a key.
func tablePaths() []string {
	var paths []string
	for path, a := range rows {
		if a.Kind == domain.Table {
			paths = append(paths, path)
		}
	}
	return paths
}

// tableAttribute returns the schema of rows by key. A declared row is complete, so its columns are Optional only.
func tableAttribute(a domain.Attribute, doc string) schema.MapNestedAttribute {
	level := attributes{}
	for _, column := range a.Columns {
		level[column.Name] = declaredAlone(rowAttribute("", column))
	}
	t := objectType(level)
	return schema.MapNestedAttribute{
		MarkdownDescription: doc, CustomType: types.MapType{ElemType: t}, Optional: true, Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: level, CustomType: t},
	}
}

// declaredAlone returns the attribute as Optional only, so that it is null unless it is declared.
func declaredAlone(a schema.Attribute) schema.Attribute {
	switch a := a.(type) {
	case schema.StringAttribute:
		a.Computed = false
		return a
	case schema.BoolAttribute:
		a.Computed = false
		return a
	case schema.Int64Attribute:
		a.Computed = false
		return a
	case schema.MapAttribute:
		a.Computed = false
		return a
	case schema.ListAttribute:
		a.Computed = false
		return a
	default:
		return a
	}
}

// tableValue returns what was read of a table.
func tableValue(path, fact string) attr.Value {
	t, ok := elementType(attribute[types.Map](object{path: rowNulls[path]}, path)).(types.ObjectType)
	if !ok {
		return rowNulls[path]
	}
	all := map[string]attr.Value{}
	for key, row := range domain.ParseTable(fact) {
		values := map[string]attr.Value{}
		for name := range t.AttrTypes {
			values[name] = rowValue(path+".*."+name, row[name])
		}
		all[key] = types.ObjectValueMust(t.AttrTypes, values)
	}
	return types.MapValueMust(t, all)
}
