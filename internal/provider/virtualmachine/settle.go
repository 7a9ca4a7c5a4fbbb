package virtualmachine

import (
	"cmp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// equivalents tell, by attribute name, which texts are equal by meaning though they are written differently; null is
// "". Quantities and durations know it by themselves.
var equivalents = map[string]func(a, b string) bool{
	"mac":     strings.EqualFold,
	"machine": domain.SameMachine,
	"cache":   func(a, b string) bool { return cmp.Or(a, "default") == cmp.Or(b, "default") },
}

// settle plans one attribute. What is declared is planned, in the notation that the state has if it means the same;
// what isn't declared stays as it was, or becomes known after apply where it wasn't there. A nil prior says that the
// object around the attribute is new.
func settle(name string, a schema.Attribute, config, prior attr.Value) attr.Value {
	switch {
	case config.IsUnknown():
		return config
	case config.IsNull():
		switch {
		case !a.IsComputed():
			return config
		case prior != nil:
			return prior
		default:
			return unknownOf(a.GetType())
		}
	case prior == nil || prior.IsNull():
		prior = nil
	case same(name, config, prior):
		return prior
	}

	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		return settleObject(a.Attributes, config, prior)
	case schema.MapNestedAttribute:
		return settleMap(a.NestedObject.Attributes, config, prior)
	default:
		return config
	}
}

func settleObject(level attributes, config, prior attr.Value) attr.Value {
	declared, ok := config.(types.Object)
	if !ok {
		return config
	}
	before, exists := prior.(types.Object)
	was := open(before)
	settled := open(declared)
	for name, v := range settled {
		if exists {
			settled[name] = settle(name, level[name], v, was[name])
			continue
		}
		settled[name] = settle(name, level[name], v, nil)
	}
	return types.ObjectValueMust(attributeTypes(declared), settled)
}

// settleMap plans a map of nested objects. A key that isn't declared is planned to go.
func settleMap(level attributes, config, prior attr.Value) attr.Value {
	declared, ok := config.(types.Map)
	if !ok {
		return config
	}
	before, _ := prior.(types.Map)
	was := elements(before)
	settled := declared.Elements()
	for key, v := range settled {
		if v.IsUnknown() || v.IsNull() {
			continue
		}
		if o, exists := was[key]; exists {
			settled[key] = settleObject(level, v, o)
			continue
		}
		settled[key] = settleObject(level, v, nil)
	}
	return types.MapValueMust(elementType(declared), settled)
}

// keep returns what was observed, in the notation that the state or plan has for it if that means the same.
func keep(name string, observed, prior attr.Value) attr.Value {
	switch {
	case prior == nil || prior.IsNull() || prior.IsUnknown():
		return observed
	case same(name, observed, prior):
		return prior
	case observed.IsNull():
		if isNothing(prior) {
			return prior
		}
		return observed
	}

	switch o := observed.(type) {
	case types.Object:
		before, _ := prior.(types.Object)
		was, now := open(before), open(o)
		for name, v := range now {
			now[name] = keep(name, v, was[name])
		}
		return types.ObjectValueMust(attributeTypes(o), now)
	case types.Map:
		before, _ := prior.(types.Map)
		was, now := before.Elements(), o.Elements()
		for key, v := range now {
			now[key] = keep("", v, was[key])
		}
		return types.MapValueMust(elementType(o), now)
	default:
		return observed
	}
}

// same tells whether two values of one attribute are equal by meaning.
func same(name string, a, b attr.Value) bool {
	if a.Equal(b) {
		return true
	}
	if a.IsUnknown() || b.IsUnknown() {
		return false
	}
	switch a := a.(type) {
	case value.Quantity:
		b, ok := b.(value.Quantity)
		return ok && set(a) && set(b) && a.Same(b)
	case value.Duration:
		b, ok := b.(value.Duration)
		return ok && set(a) && set(b) && a.Same(b)
	case types.String:
		b, ok := b.(types.String)
		equivalent := equivalents[name]
		return ok && equivalent != nil && equivalent(a.ValueString(), b.ValueString())
	default:
		return false
	}
}

// isNothing tells whether a value that somebody wrote says no more than leaving it out: "", false, an empty map.
func isNothing(v attr.Value) bool {
	switch v := v.(type) {
	case types.String:
		return v.ValueString() == ""
	case types.Bool:
		return !v.ValueBool()
	case types.Map:
		return len(v.Elements()) == 0
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
