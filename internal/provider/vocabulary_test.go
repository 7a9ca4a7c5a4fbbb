package provider

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/domainstats"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestTransfers_haveOneVocabulary: the statistics of a migration and a job that runs have the same names and types.
func TestTransfers_haveOneVocabulary(t *testing.T) {
	t.Parallel()
	job := members(t, dataSourceType(t, domainstats.NewDataSource()), "stats", "job")
	for name, kind := range members(t, dataSourceType(t, conditions.NewDataSource()), "migration_state", "statistics") {
		if same, ok := job[name]; !ok {
			t.Errorf("a job has no %s", name)
		} else if !same.Equal(kind) {
			t.Errorf("%s is %s in a job, and %s in a migration", name, same, kind)
		}
	}
}

// TestVirtualPorts_haveOneVocabulary: an interface, a network and its port groups describe a port in the same way.
func TestVirtualPorts_haveOneVocabulary(t *testing.T) {
	t.Parallel()
	vm, net := resourceType(t, virtualmachine.NewResource()), resourceType(t, network.NewResource())
	want := members(t, vm, "interfaces", "virtual_port")
	for where, got := range map[string]map[string]attr.Type{
		"network":    members(t, net, "virtual_port"),
		"port group": members(t, net, "port_groups", "virtual_port"),
	} {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("%s: %s", where, diff)
		}
		for name, kind := range want {
			if got[name] == nil || !got[name].TerraformType(t.Context()).Equal(kind.TerraformType(t.Context())) {
				t.Errorf("%s: %s is %v, and %v in an interface", where, name, got[name], kind)
			}
		}
	}
}

var hyphenated = regexp.MustCompile("`[^` ]*-[^` ]*`")

// wrongName says what is wrong with the name of an attribute; "": nothing. TestSchemas_everythingIsDescribed asks for
// each of them.
func wrongName(at, name string, d described) string {
	flags, ok := d.(interface {
		IsOptional() bool
		IsRequired() bool
	})
	switch {
	case name == "host" && ok && !flags.IsOptional() && !flags.IsRequired():
		return "host is what users set: the host that something is on is its current_host"
	case name == "unavailable" && hyphenated.MatchString(d.GetMarkdownDescription()):
		return "names of what is missing are in snake_case: " + hyphenated.FindString(d.GetMarkdownDescription())
	case name == "id" && d.GetMarkdownDescription() == "UUID of the VM." && at != "virtfleet_virtual_machine":
		return "only the VM itself has its UUID as id: for others, it is virtual_machine_id"
	default:
		return ""
	}
}

func dataSourceType(t *testing.T, d datasource.DataSource) attr.Type {
	t.Helper()
	var resp datasource.SchemaResponse
	d.Schema(t.Context(), datasource.SchemaRequest{}, &resp)
	return resp.Schema.Type()
}

func resourceType(t *testing.T, r resource.Resource) attr.Type {
	t.Helper()
	var resp resource.SchemaResponse
	r.Schema(t.Context(), resource.SchemaRequest{}, &resp)
	return resp.Schema.Type()
}

// members returns the attributes of the object at the end of a path of names.
func members(t *testing.T, of attr.Type, names ...string) map[string]attr.Type {
	t.Helper()
	for _, name := range names {
		object, ok := of.(attr.TypeWithAttributeTypes)
		if !ok {
			t.Fatalf("%s is in %s", name, of)
		}
		of = object.AttributeTypes()[name]
		if all, ok := of.(attr.TypeWithElementType); ok {
			of = all.ElementType()
		}
	}
	object, ok := of.(attr.TypeWithAttributeTypes)
	if !ok {
		t.Fatalf("%v is %s", names, of)
	}
	return object.AttributeTypes()
}
