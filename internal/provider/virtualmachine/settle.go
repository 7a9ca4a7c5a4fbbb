package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// settle plans one attribute. What is declared is planned, in the notation that the state has if it means the same;
// what isn't declared stays as it was, or becomes known after apply where it wasn't there. A nil prior says that the
// object around the attribute is new.
func settle(path string, a schema.Attribute, config, prior attr.Value) attr.Value {
	switch {
	case config.IsUnknown():
		return config
	case config.IsNull():
		switch {
		case !a.IsComputed():
			return config
		case prior != nil:
			return prior
		case quiet[path]:
			return nullLike(config)
		default:
			return unknownOf(a.GetType())
		}
	case prior == nil || prior.IsNull():
		prior = nil
	case same(path, config, prior), undeclares(path, config):
		return prior
	}

	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		return settleObject(path, a.Attributes, config, prior)
	case schema.MapNestedAttribute:
		return settleMap(path, a.NestedObject.Attributes, config, prior)
	default:
		return config
	}
}

func settleObject(path string, level attributes, config, prior attr.Value) attr.Value {
	declared, ok := config.(types.Object)
	if !ok {
		return config
	}
	before, exists := prior.(types.Object)
	was := open(before)
	settled := open(declared)
	for name, v := range settled {
		if exists {
			settled[name] = settle(below(path, name), level[name], v, was[name])
			continue
		}
		settled[name] = settle(below(path, name), level[name], v, nil)
	}
	return types.ObjectValueMust(attributeTypes(declared), settled)
}

// settleMap plans a map of nested objects. A key that isn't declared is planned to go.
func settleMap(path string, level attributes, config, prior attr.Value) attr.Value {
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
			settled[key] = settleObject(path+".*", level, v, o)
			continue
		}
		settled[key] = settleObject(path+".*", level, v, nil)
	}
	return types.MapValueMust(elementType(declared), settled)
}

// keep returns what was observed, in the notation that the state or plan has for it if that means the same.
func keep(path string, observed, prior attr.Value) attr.Value {
	switch {
	case prior == nil || prior.IsNull() || prior.IsUnknown():
		return observed
	case same(path, observed, prior), undeclares(path, prior):
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
			now[name] = keep(below(path, name), v, was[name])
		}
		return types.ObjectValueMust(attributeTypes(o), now)
	case types.Map:
		before, _ := prior.(types.Map)
		was, now := before.Elements(), o.Elements()
		for key, v := range now {
			now[key] = keep(path+".*", v, was[key])
		}
		return types.MapValueMust(elementType(o), now)
	default:
		return observed
	}
}
