package virtualmachine

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// walk calls f for every attribute of the schema, nested ones included.
func walk(at string, level attributes, f func(at string, a schema.Attribute)) {
	for _, name := range value.Keys(level) {
		a := level[name]
		f(at+name, a)
		switch a := a.(type) {
		case schema.SingleNestedAttribute:
			walk(at+name+".", a.Attributes, f)
		case schema.MapNestedAttribute:
			walk(at+name+".*.", a.NestedObject.Attributes, f)
		}
	}
}

func TestSchema_isValid(t *testing.T) {
	t.Parallel()
	if diags := vmSchema.ValidateImplementation(t.Context()); diags.HasError() {
		t.Fatal(diags)
	}
}

func TestSchema_everythingIsDescribed(t *testing.T) {
	t.Parallel()
	walk("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		if a.GetMarkdownDescription() == "" && a.GetDescription() == "" {
			t.Errorf("%s has no description", at)
		}
	})
}

// TestSchema_typesAreBuiltOnce: a nested attribute without a custom type has the framework build its type at every step
// along every path.
func TestSchema_typesAreBuiltOnce(t *testing.T) {
	t.Parallel()
	walk("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		switch a := a.(type) {
		case schema.SingleNestedAttribute:
			if a.CustomType == nil {
				t.Errorf("%s has no custom type", at)
			}
		case schema.MapNestedAttribute:
			if a.CustomType == nil || a.NestedObject.CustomType == nil {
				t.Errorf("%s has no custom type", at)
			}
		}
	})
}

// TestSchema_declarableIsComparedAndTaken: an attribute that somebody adds to the schema is planned, compared and
// written to the state.
func TestSchema_declarableIsComparedAndTaken(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, pairs := range [][]pair{
		definitionPairs(&model{}, &model{}), policyPairs(&model{}, &model{}), computedPairs(&model{}, &model{}),
	} {
		for _, p := range pairs {
			known[p.name] = true
		}
	}
	for name := range vmSchema.Attributes {
		if !known[name] {
			t.Errorf("%s isn't compared", name)
		}
		delete(known, name)
	}
	for name := range known {
		t.Errorf("%s isn't in the schema", name)
	}
}

// TestSchema_whatTheHypervisorKnowsIsLeftAlone: not declared is unmanaged, at every level; what only we know is removed
// with its declaration.
func TestSchema_whatTheHypervisorKnowsIsLeftAlone(t *testing.T) {
	t.Parallel()
	// Where a device's data or cable leads is part of what the device is; a declared map of devices is complete. Who
	// shares a disk is what only we know.
	alone := map[string]bool{
		"disks.*.shared": true,
		"disks.*.file":   true, "disks.*.block": true, "disks.*.volume": true, "disks.*.network": true,
		"interfaces.*.network": true, "interfaces.*.bridge": true, "interfaces.*.user": true,
	}
	for _, p := range definitionPairs(&model{}, &model{}) {
		walk("", attributes{p.name: vmSchema.Attributes[p.name]}, func(at string, a schema.Attribute) {
			if !a.IsComputed() && !a.IsRequired() && !alone[at] {
				t.Errorf("%s is Optional alone", at)
			}
		})
	}
	for _, p := range policyPairs(&model{}, &model{}) {
		walk("", attributes{p.name: vmSchema.Attributes[p.name]}, func(at string, a schema.Attribute) {
			if a.IsComputed() {
				t.Errorf("%s is computed", at)
			}
		})
	}
}
