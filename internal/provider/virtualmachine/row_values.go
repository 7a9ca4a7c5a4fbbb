package virtualmachine

import (
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Rows that were read, as values of their attributes.

// rowTypes are the types of the attributes of objects, by path.
var rowTypes = func() map[string]map[string]attr.Type {
	all := map[string]map[string]attr.Type{}
	for path, null := range rowNulls {
		if o, ok := null.(types.Object); ok {
			all[path] = attributeTypes(o)
		}
	}
	return all
}()

// rowNulls are the nulls of the attributes of groups, by path.
var rowNulls = func() map[string]attr.Value {
	nulls := map[string]attr.Value{}
	var collect func(path string, level attributes)
	collect = func(path string, level attributes) {
		for name, a := range level {
			nulls[joinPath(path, name)] = valueNull(a.GetType())
			if o, ok := a.(schema.SingleNestedAttribute); ok {
				collect(joinPath(path, name), o.Attributes)
			}
		}
	}
	collect("", rowAttributes)
	for path, level := range blockLevels {
		collect(path, level)
	}
	return nulls
}()

// rowValue returns a fact as a value of the schema.
func rowValue(path, fact string) attr.Value {
	if fact == "" {
		return rowNull(path)
	}
	switch rows[path].Kind {
	case domain.Count:
		n, err := strconv.ParseInt(fact, 10, 64)
		if err != nil {
			return rowNulls[path] // Only libvirt writes it.
		}
		return types.Int64Value(n)
	case domain.Switch, domain.Flag:
		return types.BoolValue(fact == "yes")
	case domain.Amount:
		bytes, err := strconv.ParseUint(fact, 10, 64)
		if err != nil {
			return rowNulls[path]
		}
		return value.NewQuantityFromBytes(bytes)
	case domain.Table:
		return tableValue(path, fact)
	case domain.Numbers, domain.Words, domain.Texts, domain.Switches:
		return collectionValue(rows[path].Kind, fact)
	default:
		return types.StringValue(fact)
	}
}

// rowNull returns the null of an attribute's type.
func rowNull(path string) attr.Value {
	if null, ok := rowNulls[path]; ok {
		return null
	}
	return valueNull(rowAttribute(kindOf(path), rows[path]).GetType()) // This is an attribute of a device with a key.
}
