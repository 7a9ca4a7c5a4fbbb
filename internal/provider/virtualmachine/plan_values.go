package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// planValue plans one attribute, and reports whether the plan is prior. A declared value is planned, in the state's
// notation if both mean the same. An undeclared value stays as it was, or is known after apply if there was none. A nil
// prior says that the object around the attribute is new.
func (s *shape) planValue(config, prior attr.Value) (planned attr.Value, kept bool) {
	switch {
	case config.IsUnknown():
		return config, false
	case config.IsNull():
		switch {
		case !s.computed:
			return config, prior != nil && prior.IsNull()
		case prior != nil:
			return prior, true
		case quiet[s.path]:
			return s.null, false
		default:
			return s.unknown, false
		}
	case prior == nil || prior.IsNull():
		prior = nil
	case s.isWhole() && sameMeaning(s.path, config, prior), isLeftAlone(s.path, config):
		return prior, true
	}

	switch declared := config.(type) {
	case types.Object:
		before, _ := prior.(types.Object)
		return s.planObject(declared, before)
	case types.Map:
		if s.element.fields == nil {
			return config, false
		}
		before, _ := prior.(types.Map)
		return s.planMap(declared, before)
	default:
		return config, false
	}
}

// planObject plans an object. It is new if prior is null.
func (s *shape) planObject(config, prior types.Object) (planned attr.Value, kept bool) {
	values, was := open(config), open(prior)
	kept = was != nil
	for name, v := range values {
		var same bool
		values[name], same = s.fields[name].planValue(v, was[name])
		kept = kept && same
	}
	if kept {
		return prior, true
	}
	return types.ObjectValueMust(s.attributeTypes(), values), false
}

// planMap plans a map of nested objects. A key that isn't declared is planned to be removed.
func (s *shape) planMap(config, prior types.Map) (planned attr.Value, kept bool) {
	values, was := config.Elements(), elements(prior)
	kept = isSet(prior) && len(values) == len(was)
	for key, v := range values {
		o, ok := v.(types.Object)
		if !ok || !isSet(o) {
			kept = false
			continue
		}
		var same bool
		values[key], same = s.element.planObject(o, was[key])
		kept = kept && same
	}
	if kept {
		return prior, true
	}
	return types.MapValueMust(s.element.typ, values), false
}

// keepNotation returns the observed value, in the notation of prior, the state or plan, if both mean the same. It
// reports whether the result is prior.
func (s *shape) keepNotation(observed, prior attr.Value) (now attr.Value, kept bool) {
	switch {
	case prior == nil || prior.IsUnknown():
		return observed, false
	case prior.IsNull():
		return observed, observed.IsNull()
	case s.isWhole() && sameMeaning(s.path, observed, prior), isLeftAlone(s.path, prior):
		return prior, true
	case !s.isWhole() && observed.Equal(prior):
		return prior, true // Most blocks of most VMs: comparing them costs less than opening them.
	case observed.IsNull():
		if isNothing(prior) {
			return prior, true
		}
		return observed, false
	}

	switch o := observed.(type) {
	case types.Object:
		before, _ := prior.(types.Object)
		was, now := open(before), open(o)
		if s.keepAll(now, was) {
			return prior, true
		}
		return types.ObjectValueMust(s.attributeTypes(), now), false
	case types.Map:
		before, _ := prior.(types.Map)
		was, now := before.Elements(), o.Elements()
		if s.keepAll(now, was) {
			return prior, true
		}
		return types.MapValueMust(s.element.typ, now), false
	default:
		return observed, false
	}
}

// keepAll applies keepNotation to each part of an observed value. It reports whether the result is prior.
func (s *shape) keepAll(now, was map[string]attr.Value) bool {
	all := len(now) == len(was)
	for name, v := range now {
		part := s.element
		if part == nil {
			part = s.fields[name]
		}
		var kept bool
		now[name], kept = part.keepNotation(v, was[name])
		all = all && kept
	}
	return all
}

// isWhole reports whether values are compared as a whole first. Other objects are compared by their parts.
func (s *shape) isWhole() bool {
	return s.fields == nil && (s.element == nil || s.element.fields == nil) || s.path == "disks.*.network"
}

// attributeTypes returns the types of an object's attributes.
func (s *shape) attributeTypes() map[string]attr.Type {
	t, _ := s.typ.(types.ObjectType)
	return t.AttrTypes
}
