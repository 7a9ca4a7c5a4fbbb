package virtualmachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TestFastPath_schemaLeavesPlanningToModifyPlan: what the fast path doesn't know of would be left out of plans.
func TestFastPath_schemaLeavesPlanningToModifyPlan(t *testing.T) {
	t.Parallel()
	walkSchema("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		for _, field := range []string{"Default", "PlanModifiers"} {
			if f := reflect.ValueOf(a).FieldByName(field); f.IsValid() && !f.IsZero() {
				t.Errorf("%s has %s: ModifyPlan has to do it", at, field)
			}
		}
	})
}

// TestFastPath_validatorsLookAtTheirValueAlone: the fast path passes them nothing else, and doesn't call them for null
// and unknown. So only those that are known here may check a schema.
func TestFastPath_validatorsLookAtTheirValueAlone(t *testing.T) {
	t.Parallel()
	known := []string{
		"value.among", "stringvalidator.lengthAtLeastValidator", "mapvalidator.keysAreValidator",
		"value.positiveDuration",
	}
	walkSchema("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		if a.GetDeprecationMessage() != "" {
			t.Errorf("%s is deprecated: every plan that sets it goes the long way", at)
		}
		validators := reflect.ValueOf(a).FieldByName("Validators")
		for i := range validators.Len() {
			if is := fmt.Sprintf("%T", validators.Index(i).Interface()); !slices.Contains(known, is) {
				t.Errorf("%s has a validator %s: can the fast path call it?", at, is)
			}
		}
		called := false
		switch a := a.(type) {
		case schema.StringAttribute, schema.MapAttribute:
			called = true
		case schema.MapNestedAttribute:
			called = len(a.NestedObject.Validators) == 0 && validators.Len() == 0
		case schema.SingleNestedAttribute, schema.BoolAttribute, schema.Int64Attribute, schema.ListAttribute,
			schema.SetAttribute:
			called = validators.Len() == 0
		}
		if !called {
			t.Errorf("%s is a %T: the fast path doesn't call its validators", at, a)
		}
	})
}

// TestDecode_asTheFramework: what is decoded equals what the framework decodes.
func TestDecode_asTheFramework(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := drawValue(wireType, 0).Draw(t, "value")
		want := model{}
		diags := tfsdk.State{Raw: raw, Schema: vmSchema}.Get(t.Context(), &want)
		wire, err := tfprotov6.NewDynamicValue(wireType, raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeWire(t.Context(), &wire)
		if diags.HasError() || err != nil {
			if len(diags) == 0 {
				t.Fatalf("the framework decodes what decode doesn't: %v", err)
			}
			return
		}
		if !equal(got, &want) {
			t.Fatalf("decoded %v, want %v", got, want)
		}
	})
}

// TestSameValue_isEqual: values that are the same are equal, and others aren't.
func TestSameValue_isEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *model {
			wire, err := tfprotov6.NewDynamicValue(wireType, drawValue(wireType, 0).Draw(t, name))
			if err != nil {
				t.Fatal(err)
			}
			m, err := decodeWire(t.Context(), &wire)
			if err != nil {
				t.Skip(err) // What can't be decoded isn't a VM: another one is drawn.
			}
			return m
		}
		a, b := draw("a"), draw("b")
		for _, pairs := range [][]pair{attributePairs(vmSchema.Attributes, a, b), attributePairs(vmSchema.Attributes, a, a)} {
			for _, p := range pairs {
				if same := sameValue(p.a, p.b); same != p.a.Equal(p.b) {
					t.Fatalf("%s: the same is %t for %v and %v", p.name, same, p.a, p.b)
				}
			}
		}
	})
}

// TestSaved_asTheFramework: a state that Terraform saved goes over the wire as plugin-go would write it.
func TestSaved_asTheFramework(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		saved := drawSaved(wireType).Draw(t, "state")
		data, err := json.Marshal(saved)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tfprotov6.RawState{JSON: data}.UnmarshalWithOpts(wireType, tfprotov6.UnmarshalOpts{
			ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		state, err := parseSaved(data)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := state.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := tfprotov6.DynamicValue{MsgPack: wire}.Unmarshal(wireType)
		if err != nil || !got.Equal(want) {
			t.Fatalf("%s is %v over the wire (%v), want %v", data, got, err, want)
		}
	})
	for _, saved := range []string{
		`{"name": 1}`, `{"name": {}}`, `{"name": ["a"]}`, `{"labels": "a"}`, `{"labels": ["a"]}`, `{"cpu": true}`,
		`{"platform": {"iothreads": "1"}}`, `{"platform": {"iothreads": 1.5}}`, `{"autostart": "true"}`, `[]`, `{`,
	} {
		state, err := parseSaved([]byte(saved))
		if err == nil {
			_, err = state.encode()
		}
		if err == nil {
			t.Errorf("%s isn't a state of a VM, and is taken for one", saved)
		}
	}
}

// drawSaved draws a value of a type as Terraform saves it. It may lack attributes, and have some that the type lacks.
func drawSaved(typ tftypes.Type) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		below := func(of tftypes.Type, name string) any {
			if rapid.IntRange(0, 3).Draw(t, "is null") == 0 {
				return nil
			}
			return drawSaved(of).Draw(t, name)
		}
		all := map[string]any{}
		several := func(of tftypes.Type) {
			for _, key := range rapid.SliceOfN(rapid.StringMatching("[a-z]{1,3}"), 0, 2).Draw(t, "keys") {
				all[key] = below(of, key)
			}
		}
		switch typ := typ.(type) {
		case tftypes.Object:
			for _, name := range value.Keys(typ.AttributeTypes) {
				if rapid.IntRange(0, 4).Draw(t, "is missing") > 0 {
					all[name] = below(typ.AttributeTypes[name], name)
				}
			}
			if rapid.Bool().Draw(t, "of another version") {
				all["was_removed"] = []string{"a"}
			}
			return all
		case tftypes.Map:
			several(typ.ElementType)
			return all
		case tftypes.List:
			several(typ.ElementType)
			return append([]any{}, slices.Collect(maps.Values(all))...)
		case tftypes.Set:
			several(typ.ElementType)
			return append([]any{}, slices.Collect(maps.Values(all))...)
		}
		switch {
		case typ.Is(tftypes.Bool):
			return rapid.Bool().Draw(t, "bool")
		case typ.Is(tftypes.Number):
			return rapid.Int64().Draw(t, "number")
		default:
			return rapid.String().Draw(t, "text")
		}
	})
}

// drawValue draws a value of a type: null, unknown, or made of others.
func drawValue(typ tftypes.Type, depth int) *rapid.Generator[tftypes.Value] {
	return rapid.Custom(func(t *rapid.T) tftypes.Value {
		if depth > 0 {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				return tftypes.NewValue(typ, nil)
			case 2:
				return tftypes.NewValue(typ, tftypes.UnknownValue)
			}
		}
		below := func(of tftypes.Type, name string) tftypes.Value { return drawValue(of, depth+1).Draw(t, name) }
		several := func(of tftypes.Type) map[string]tftypes.Value {
			all := map[string]tftypes.Value{}
			for _, key := range rapid.SliceOfN(rapid.StringMatching("[a-z]{1,3}"), 0, 2).Draw(t, "keys") {
				all[key] = below(of, key)
			}
			return all
		}
		switch typ := typ.(type) {
		case tftypes.Object:
			all := map[string]tftypes.Value{}
			for _, name := range value.Keys(typ.AttributeTypes) {
				all[name] = below(typ.AttributeTypes[name], name)
			}
			return tftypes.NewValue(typ, all)
		case tftypes.Map:
			return tftypes.NewValue(typ, several(typ.ElementType))
		case tftypes.List:
			return tftypes.NewValue(typ, slices.Collect(maps.Values(several(typ.ElementType))))
		case tftypes.Set:
			return tftypes.NewValue(typ, slices.Collect(maps.Values(several(typ.ElementType))))
		}
		switch {
		case typ.Is(tftypes.Bool):
			return tftypes.NewValue(typ, rapid.Bool().Draw(t, "bool"))
		case typ.Is(tftypes.Number):
			return tftypes.NewValue(typ, rapid.Int64().Draw(t, "number"))
		default:
			return tftypes.NewValue(typ, rapid.SampledFrom([]string{"", "a", "2Gi", "90s"}).Draw(t, "text"))
		}
	})
}

// TestFastPath_leavesTheFrameworksPrivateStateAlone: the framework keeps its own entries next to ours, and changes them
// while it reads.
func TestFastPath_leavesTheFrameworksPrivateStateAlone(t *testing.T) {
	t.Parallel()
	for data, open := range map[string]bool{
		"":                                   true,
		`{"live":"e30="}`:                    true,
		`{".import_before_read":"dHJ1ZQ=="}`: false,
		`not JSON`:                           false,
	} {
		if _, ok := openPrivate([]byte(data)); ok != open {
			t.Errorf("private state %q is taken: %t, want %t", data, ok, open)
		}
	}
}
