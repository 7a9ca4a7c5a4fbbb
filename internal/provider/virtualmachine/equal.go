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

// Paths here are those of attributes, with * for the keys of maps, as in the domain package, which knows which texts
// mean the same.

// joinPath returns the path of an attribute of a nested object.
func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// leftAlone are the paths of the texts for which "" means the same as null: not declared. Modules pass "" for values
// that they don't set. For other texts "" declares that there is no value.
var leftAlone = func() map[string]bool {
	found := map[string]bool{}
	var collect func(path string, level attributes)
	collect = func(path string, level attributes) {
		for name, a := range level {
			at := joinPath(path, name)
			switch a := a.(type) {
			case schema.SingleNestedAttribute:
				collect(at, a.Attributes)
			case schema.MapNestedAttribute:
				collect(at+".*", a.NestedObject.Attributes)
			case schema.StringAttribute:
				if a.IsComputed() && a.IsOptional() && !strings.HasPrefix(at, "kernel.") && at != "disks.*.serial" &&
					!emptyIsNothing(at) {
					found[at] = true
				}
			}
		}
	}
	collect("", vmSchema.Attributes)
	return found
}()

// IsLeftAlone reports whether "" means "not declared" for the text at a path of the schema, whose keys are "*".
func IsLeftAlone(path string) bool { return leftAlone[path] }

// isLeftAlone reports whether a user wrote "" for a text where it means "not declared".
func isLeftAlone(path string, v attr.Value) bool {
	s, ok := v.(types.String)
	return ok && isSet(s) && s.ValueString() == "" && leftAlone[path]
}

// sameMeaning reports whether two values of an attribute mean the same.
func sameMeaning(path string, a, b attr.Value) bool {
	if a.Equal(b) {
		return true
	}
	if a.IsUnknown() || b.IsUnknown() {
		return false
	}
	switch a := a.(type) {
	case value.Quantity:
		b, ok := b.(value.Quantity)
		return ok && isSet(a) && isSet(b) && sameQuantity(path, a, b)
	case value.Duration:
		b, ok := b.(value.Duration)
		return ok && isSet(a) && isSet(b) && a.Same(b)
	case types.String:
		b, ok := b.(types.String)
		return ok && domain.SameText(path, a.ValueString(), b.ValueString())
	case types.Map:
		b, ok := b.(types.Map)
		return ok && isSet(a) && isSet(b) && elementType(a).Equal(types.StringType) && isKnown(a) && isKnown(b) &&
			(sameTexts(path, value.StringMap(a), value.StringMap(b)) || // A null element isn't there.
				domain.SameText(path, collectionFact(a), collectionFact(b)))
	case types.List:
		b, ok := b.(types.List)
		return ok && isSet(a) && isSet(b) && isKnown(a) && isKnown(b) &&
			domain.SameText(path, collectionFact(a), collectionFact(b))
	case types.Object:
		b, ok := b.(types.Object)
		return ok && path == "disks.*.network" && isSet(a) && isSet(b) && isKnown(a) && isKnown(b) &&
			domain.SameSource(networkSource(a), networkSource(b))
	default:
		return false
	}
}

// sameTexts reports whether two maps of texts have the same keys, and texts with the same meaning.
func sameTexts(path string, a, b map[string]string) bool {
	return maps.EqualFunc(a, b, func(a, b string) bool { return domain.SameText(path+".*", a, b) })
}

func sameQuantity(path string, a, b value.Quantity) bool {
	if strings.HasPrefix(path, "memory.") && a.Bytes() != nil && b.Bytes() != nil {
		return domain.SameMemory(*a.Bytes(), *b.Bytes())
	}
	return a.Same(b)
}

// isNothing reports whether a value in the configuration means the same as no value: "", false, 0, an empty map.
func isNothing(v attr.Value) bool {
	switch v := v.(type) {
	case types.String:
		return v.ValueString() == ""
	case value.Quantity:
		return v.Bytes() != nil && *v.Bytes() == 0
	case types.Int64:
		return v.ValueInt64() == 0
	case types.Bool:
		return !v.ValueBool()
	case types.List:
		return len(v.Elements()) == 0
	case types.Set:
		return len(v.Elements()) == 0
	case types.Map:
		return len(value.StringMap(v)) == 0 && (elementType(v).Equal(types.StringType) || len(v.Elements()) == 0)
	case types.Object:
		for _, a := range v.Attributes() {
			if !a.IsNull() && !isNothing(a) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// disclosed are the texts that an error may show, because they come from a fixed vocabulary. Any other text may be the
// value of a sensitive variable.
var disclosed = map[string]bool{
	"machine_type": true, "arch": true, "type": true, "cpu.mode": true, "firmware.type": true, "disks.*.bus": true,
	"disks.*.device": true, "disks.*.format": true, "disks.*.cache": true, "interfaces.*.model": true, "status": true,
	"run_strategy": true, "eviction_strategy": true,
}

// redacted returns a value as text for users, without any part that could be a secret.
func redacted(path string, v attr.Value) string {
	switch v.(type) {
	case types.Int64, types.Bool, value.Quantity, value.Duration:
		return v.String()
	}
	switch {
	case v.IsNull():
		return "not there"
	case disclosed[path], rows[path].Values != nil:
		return v.String()
	default:
		return "another value"
	}
}
