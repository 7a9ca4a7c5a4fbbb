package virtualmachine

import (
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Rows of blocks and devices that also have code of their own. As with groups, their schema and mapping follow from the
// domain package. Paths have * for the keys of devices.

// blockRows are the rows by the path of the block or device that has them.
var blockRows = func() map[string][]domain.Attribute {
	all := map[string][]domain.Attribute{
		"disks.*": domain.DiskRows, "disks.*.network": domain.NetworkRows, "interfaces.*": domain.InterfaceRows,
	}
	for _, g := range domain.Groups {
		if g.Block {
			all[g.Path] = g.Attributes
		}
	}
	return all
}()

// blockLevels are the schema attributes of blockRows, by path.
var blockLevels = func() map[string]attributes {
	levels := map[string]attributes{}
	for path, rows := range blockRows {
		levels[path] = schemaOfRows(path, rows)
	}
	return levels
}()

// blockRow is a row with its path and its schema attribute.
type blockRow struct {
	name, path string
	attribute  schema.Attribute
}

// blockRowsAt are the rows of each path.
var blockRowsAt = func() map[string][]blockRow {
	all := map[string][]blockRow{}
	for path, level := range blockLevels {
		for name, a := range level {
			all[path] = append(all[path], blockRow{name, joinPath(path, name), a})
		}
	}
	return all
}()

// blockParts says, by path, which attributes of rows are objects. Objects are read as far as they are declared.
var blockParts = func() map[string]bool {
	parts := map[string]bool{}
	for path, level := range blockLevels {
		walkRows(path, level, func(path string, a schema.Attribute) {
			_, isObject := a.(schema.SingleNestedAttribute)
			parts[path] = isObject
		})
	}
	return parts
}()

// schemaOfRows returns the schema of rows. Names with dots are nested.
func schemaOfRows(path string, rows []domain.Attribute) attributes {
	level := attributes{}
	inner := map[string][]domain.Attribute{}
	for _, a := range rows {
		first, rest, isNested := strings.Cut(a.Name, ".")
		if !isNested {
			level[a.Name] = rowAttribute(kindOf(path), a)
			continue
		}
		a.Name = rest
		inner[first] = append(inner[first], a)
	}
	for name, rows := range inner {
		part := schemaOfRows(joinPath(path, name), rows)
		level[name] = nestedAttribute(domain.NestedDocs[joinPath(path, name)], part, objectType(part))
	}
	return level
}

// walkRows calls f for all attributes of a level, including nested ones.
func walkRows(path string, level attributes, f func(path string, a schema.Attribute)) {
	for name, a := range level {
		f(joinPath(path, name), a)
		if o, ok := a.(schema.SingleNestedAttribute); ok {
			walkRows(joinPath(path, name), o.Attributes, f)
		}
	}
}

// declareRows adds the values that an object declares for its rows. strip is the prefix of their paths that their facts
// don't have.
func declareRows(into *domain.Values, path, strip string, o object) {
	for _, row := range blockRowsAt[path] {
		collectValues(into, row.path, strip, o[row.name])
	}
}

// readRows sets the attributes of an object to what was read for its rows.
func readRows(a map[string]attr.Value, path string, r rowReader, prior object, everything bool) {
	for _, row := range blockRowsAt[path] {
		a[row.name] = r.readAttribute(row.path, row.attribute, prior[row.name], everything)
	}
}

// collectionFact returns the fact for a list of numbers, a list of texts, or a map of texts or switches.
func collectionFact(v attr.Value) string {
	switch v := v.(type) {
	case types.List:
		var (
			numbers []int64
			words   []string
		)
		for _, e := range v.Elements() {
			switch e := e.(type) {
			case types.Int64:
				numbers = append(numbers, e.ValueInt64())
			case types.String:
				words = append(words, e.ValueString())
			}
		}
		return domain.FormatNumbers(numbers) + domain.FormatWords(words)
	case types.Map:
		all := map[string]string{}
		for name, e := range v.Elements() {
			switch e := e.(type) {
			case types.String:
				if isSet(e) {
					all[name] = e.ValueString()
				}
			case types.Bool:
				if isSet(e) {
					all[name] = map[bool]string{true: "yes", false: "no"}[e.ValueBool()]
				}
			}
		}
		return domain.FormatTexts(all)
	default:
		return ""
	}
}

// collectionValue is the inverse of collectionFact.
func collectionValue(kind domain.AttributeKind, fact string) attr.Value {
	switch kind {
	case domain.Numbers:
		var all []attr.Value
		for _, n := range domain.ParseNumbers(fact) {
			all = append(all, types.Int64Value(n))
		}
		return types.ListValueMust(types.Int64Type, all)
	case domain.Words:
		return value.NewStringList(domain.ParseWords(fact))
	case domain.Switches:
		all := map[string]attr.Value{}
		for name, text := range domain.ParseTexts(fact) {
			all[name] = types.BoolValue(text == "yes")
		}
		return types.MapValueMust(types.BoolType, all)
	default:
	}
	all := map[string]attr.Value{}
	for name, text := range maps.All(domain.ParseTexts(fact)) {
		all[name] = types.StringValue(text)
	}
	return types.MapValueMust(types.StringType, all)
}
