package virtualmachine

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// attributeNames are the names of the model's attributes, in the order of its fields. Code that handles all attributes
// iterates over them, so it can't forget one.
var attributeNames = func() []string {
	var names []string
	for field := range reflect.TypeFor[model]().Fields() {
		names = append(names, field.Tag.Get("tfsdk"))
	}
	return names
}()

// pair is one attribute of two models.
type pair struct {
	name string
	// field is the index of the attribute's field in the model.
	field int
	a, b  attr.Value
}

// attributePairs returns the attributes in a part of the schema, as pairs from two models.
func attributePairs(part attributes, a, b *model) []pair {
	inA, inB := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	all := make([]pair, 0, len(part))
	for i, name := range attributeNames {
		if _, ok := part[name]; ok {
			p := pair{name: name, field: i}
			p.a, _ = reflect.TypeAssert[attr.Value](inA.Field(i))
			p.b, _ = reflect.TypeAssert[attr.Value](inB.Field(i))
			all = append(all, p)
		}
	}
	return all
}

// combine sets the attributes in a part of the schema to the result of a function of two models.
func (m *model) combine(part attributes, a, b *model, of func(pair) attr.Value) {
	fields := reflect.ValueOf(m).Elem()
	for _, p := range attributePairs(part, a, b) {
		fields.Field(p.field).Set(reflect.ValueOf(of(p)))
	}
}

// equal reports whether all attributes of two models are equal.
func equal(a, b *model) bool {
	inA, inB := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range attributeNames {
		x, _ := reflect.TypeAssert[attr.Value](inA.Field(i))
		y, _ := reflect.TypeAssert[attr.Value](inB.Field(i))
		if !sameValue(x, y) {
			return false
		}
	}
	return true
}

// sameValue is Equal at less cost for blocks that one model has from the other, as most blocks of most plans are:
// DeepEqual doesn't walk through a map that both have.
func sameValue(a, b attr.Value) bool {
	switch a.(type) {
	case types.Object, types.Map:
		return reflect.DeepEqual(a, b) || a.Equal(b)
	default:
		return a.Equal(b)
	}
}

// unmetChanges returns an error that lists the planned changes that the VM lacks after an update without errors. An
// attribute that is neither declared nor there is not a difference.
func unmetChanges(now, plan, state *model) diag.Diagnostics {
	var wrong []string
	before := attributePairs(definitionAttributes, state, state)
	for i, p := range attributePairs(definitionAttributes, now, plan) {
		if !p.b.IsNull() {
			wrong = append(wrong, differences(p.name, p.name, p.a, p.b, before[i].a)...)
		}
	}
	before = attributePairs(policyAttributes, state, state)
	for i, p := range attributePairs(policyAttributes, now, plan) {
		if block, ok := p.a.(types.Object); ok && p.b.IsNull() && isLeftFirstBoot(block) {
			continue // The update has said why it keeps the volume, and the next plan shows it.
		}
		wrong = append(wrong, differences(p.name, p.name, p.a, p.b, before[i].a)...)
	}
	wrong = append(wrong, differences("status", "status", now.Status, plan.Status, nil)...)
	if len(wrong) == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewErrorDiagnostic("Unable to update "+noun, fmt.Sprintf(
		"The update met no error, but virtual machine %q is not as planned:\n%s\n\n"+
			"Run plan again: it shows what is left to do.", text(plan.Name), strings.Join(wrong, "\n")))}
}

// differences lists where seen differs from what was planned for prior. prior is nil if there was nothing before.
func differences(at, path string, seen, planned, prior attr.Value) []string {
	if planned.IsUnknown() || sameMeaning(path, seen, planned) || prior != nil && planned.Equal(prior) {
		return nil
	}
	var wrong []string
	switch p := planned.(type) {
	case types.Object:
		s, ok := seen.(types.Object)
		if !ok || !isSet(p) || !isSet(s) {
			break
		}
		before, _ := prior.(types.Object)
		want, is, was := open(p), open(s), open(before)
		for _, name := range value.Keys(want) {
			if !want[name].IsNull() {
				wrong = append(wrong, differences(joinPath(at, name), joinPath(path, name), is[name], want[name], was[name])...)
			}
		}
		return wrong
	case types.Map:
		s, ok := seen.(types.Map)
		if !ok || !isSet(p) || !isSet(s) {
			break
		}
		before, _ := prior.(types.Map)
		return mapDifferences(at, path, s.Elements(), p.Elements(), before.Elements())
	}
	return []string{fmt.Sprintf("  - %s: planned %s, but it is %s", at, redacted(path, planned), redacted(path, seen))}
}

func mapDifferences(at, path string, seen, planned, prior map[string]attr.Value) []string {
	var wrong []string
	for _, key := range value.Keys(planned) {
		if is, ok := seen[key]; ok {
			wrong = append(wrong, differences(joinPath(at, key), path+".*", is, planned[key], prior[key])...)
			continue
		}
		wrong = append(wrong, fmt.Sprintf("  - %s.%s: planned, but it isn't there", at, key))
	}
	for _, key := range value.Keys(seen) {
		if _, ok := planned[key]; !ok {
			wrong = append(wrong, fmt.Sprintf("  - %s.%s: planned to go, but it is still there", at, key))
		}
	}
	return wrong
}

// adoptPlanned sets each attribute to its planned value, if that was known.
func (m *model) adoptPlanned(plan *model) {
	m.combine(vmSchema.Attributes, plan, m, func(p pair) attr.Value { return fillUnknown(p.a, p.b) })
}

// fillUnknown returns the planned value, with its unknown parts replaced by what was seen.
func fillUnknown(planned, seen attr.Value) attr.Value {
	if planned.IsUnknown() {
		if seen == nil {
			return nullLike(planned)
		}
		return seen
	}
	switch p := planned.(type) {
	case types.Object:
		if p.IsNull() {
			return planned
		}
		s, _ := seen.(types.Object)
		all, is := open(p), open(s)
		for name, v := range all {
			all[name] = fillUnknown(v, is[name])
		}
		return types.ObjectValueMust(attributeTypes(p), all)
	case types.Map:
		if p.IsNull() {
			return planned
		}
		s, _ := seen.(types.Map)
		all, is := p.Elements(), s.Elements()
		for key, v := range all {
			all[key] = fillUnknown(v, is[key])
		}
		return types.MapValueMust(elementType(p), all)
	default:
		return planned
	}
}
