package virtualmachine

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// walkSchema calls f for every attribute of the schema, nested ones included.
func walkSchema(at string, level attributes, f func(at string, a schema.Attribute)) {
	for _, name := range value.Keys(level) {
		a := level[name]
		f(at+name, a)
		switch a := a.(type) {
		case schema.SingleNestedAttribute:
			walkSchema(at+name+".", a.Attributes, f)
		case schema.MapNestedAttribute:
			walkSchema(at+name+".*.", a.NestedObject.Attributes, f)
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
	walkSchema("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		if a.GetMarkdownDescription() == "" && a.GetDescription() == "" {
			t.Errorf("%s has no description", at)
		}
	})
}

// TestSchema_staysSmall: the framework's cost of every plan grows with the attributes, those of the first level above
// all. A new one belongs into a group, and whoever raises a number here runs make bench before.
func TestSchema_staysSmall(t *testing.T) {
	t.Parallel()
	const firstLevel, altogether = 44, 552
	all := 0
	walkSchema("", vmSchema.Attributes, func(string, schema.Attribute) { all++ })
	if n := len(vmSchema.Attributes); n > firstLevel || all > altogether {
		t.Errorf("there are %d attributes of the first level, %d altogether", n, all)
	}
	t.Logf("%d attributes of the first level, %d altogether", len(vmSchema.Attributes), all)
}

// TestSchema_typesAreBuiltOnce: a nested attribute without a custom type has the framework build its type at every step
// along every path.
func TestSchema_typesAreBuiltOnce(t *testing.T) {
	t.Parallel()
	walkSchema("", vmSchema.Attributes, func(at string, a schema.Attribute) {
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

// TestSchema_isTheModel: Terraform's values are put into the model by name.
func TestSchema_isTheModel(t *testing.T) {
	t.Parallel()
	for name := range vmSchema.Attributes {
		if !slices.Contains(attributeNames, name) {
			t.Errorf("%s has no field in the model", name)
		}
	}
	for _, name := range attributeNames {
		if vmSchema.Attributes[name] == nil {
			t.Errorf("the model's %q isn't in the schema", name)
		}
	}
}

// TestSchema_whatTheHypervisorKnowsIsLeftAlone: not declared is unmanaged, at every level; what only we know is removed
// with its declaration.
func TestSchema_whatTheHypervisorKnowsIsLeftAlone(t *testing.T) {
	t.Parallel()
	// Where a device's data or cable leads is part of what the device is; a declared map of devices is complete. Who
	// shares a disk, how one was made, and the class of a device, is what only we know. A row of a table is complete.
	alone := map[string]bool{
		"disks.*.shared": true, "devices.host_devices.*.class": true,
		"disks.*.pool": true, "disks.*.image": true, "disks.*.clone": true, "disks.*.size": true,
		"disks.*.on_destroy": true, "disks.*.preallocation": true,
		"disks.*.file": true, "disks.*.block": true, "disks.*.volume": true, "disks.*.network": true,
		"disks.*.network.auth": true,
		"interfaces.*.network": true, "interfaces.*.bridge": true, "interfaces.*.user": true,
		"interfaces.*.direct": true, "interfaces.*.hostdev": true, "interfaces.*.vdpa": true, "interfaces.*.vhostuser": true,
	}
	walkSchema("", definitionAttributes, func(at string, a schema.Attribute) {
		table, _, _ := strings.Cut(at, ".*.")
		if !a.IsComputed() && !a.IsRequired() && !alone[at] && rows[table].Kind != domain.Table {
			t.Errorf("%s is Optional alone", at)
		}
	})
	walkSchema("", policyAttributes, func(at string, a schema.Attribute) {
		// An import finds run_strategy by the VM's power. Without it a plan names its default: TestPlannedRunStrategy.
		if a.IsComputed() && at != "run_strategy" {
			t.Errorf("%s is computed", at)
		}
	})
}
