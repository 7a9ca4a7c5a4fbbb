package virtualmachine

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/attr"
)

// What names the VM's attributes one by one forgets a new one without a word. These tests take the names from the
// model's own fields, and the values from full, which has to say something about each.

// attributesOf are the attributes of a model by name.
func attributesOf(t *testing.T, m *model) map[string]attr.Value {
	t.Helper()
	all := map[string]attr.Value{}
	for field, v := range reflect.ValueOf(m).Elem().Fields() {
		a, ok := reflect.TypeAssert[attr.Value](v)
		if !ok {
			t.Fatalf("%s is no attribute", field.Name)
		}
		all[field.Tag.Get("tfsdk")] = a
	}
	return all
}

// withAttributeOf is the model with one attribute of another.
func withAttributeOf(m, other *model, name string) *model {
	out := *m
	for i := range reflect.TypeFor[model]().NumField() {
		if reflect.TypeFor[model]().Field(i).Tag.Get("tfsdk") == name {
			reflect.ValueOf(&out).Elem().Field(i).Set(reflect.ValueOf(other).Elem().Field(i))
		}
	}
	return &out
}

// observedFull is the state of the VM that full gives.
func observedFull(t *testing.T, prior *model) *model {
	t.Helper()
	var now model
	now.fromFleet(observation{vm: vmAfterApply(t, full), addresses: map[string][]string{}}, prior)
	return &now
}

func TestAttributes_allAreInFull(t *testing.T) {
	t.Parallel()
	config := attributesOf(t, modelOf(t, full))
	for name, a := range vmSchema.Attributes {
		if (a.IsRequired() || a.IsOptional()) && config[name].IsNull() {
			t.Errorf("%s isn't in full: no test that goes through all attributes would try it", name)
		}
	}
}

func TestAttributes_allAreAskedOfTheFleet(t *testing.T) {
	t.Parallel()
	whole := modelOf(t, full).spec(nil)
	for name := range definitionAttributes {
		if cmp.Equal(whole, modelOf(t, full.without(name)).spec(nil)) {
			t.Errorf("%s isn't in model.spec: what is declared of it would never be applied", name)
		}
	}
}

func TestAttributes_allAreReadBack(t *testing.T) {
	t.Parallel()
	is := attributesOf(t, observedFull(t, &model{}))
	for name := range mergeAttributes(definitionAttributes, computedAttributes) {
		if is[name].IsNull() {
			t.Errorf("%s isn't in model.fromFleet: no change of it on the host would be seen", name)
		}
	}
}

func TestAttributes_allArePlanned(t *testing.T) {
	t.Parallel()
	state := stateAfterApply(t, full)
	isNew := planning{config: modelOf(t, full)}.plannedValues()
	planned, was := attributesOf(t, &isNew), attributesOf(t, state)
	for name, declared := range attributesOf(t, modelOf(t, full)) {
		if !declared.IsNull() && planned[name].IsNull() {
			t.Errorf("%s isn't in planning.plannedValues: what is declared of it would never be planned", name)
		}
	}
	undeclared := planning{config: modelOf(t, minimal), state: state}.plannedValues()
	planned = attributesOf(t, &undeclared)
	for name := range definitionAttributes {
		if !planned[name].Equal(was[name]) {
			t.Errorf("%s isn't left alone by planning.plannedValues where it isn't declared", name)
		}
	}
}

func TestAttributes_allAreCompared(t *testing.T) {
	t.Parallel()
	state := observedFull(t, modelOf(t, full))
	for name := range attributesOf(t, state) {
		without := withAttributeOf(state, &model{}, name)
		if got := changedAttributes(state, without); equal(state, without) || !slices.Equal(got, []string{name}) {
			t.Errorf("%s isn't compared, or under another name (%q): no plan would see that it changes", name, got)
		}
	}
}

func TestAttributes_allAreTaken(t *testing.T) {
	t.Parallel()
	plan := observedFull(t, modelOf(t, full))
	var now model
	now.adoptPlanned(plan)
	taken := attributesOf(t, &now)
	for name, planned := range attributesOf(t, plan) {
		if !taken[name].Equal(planned) {
			t.Errorf("%s isn't in model.take: the state would say something else of it than the plan", name)
		}
	}
}
