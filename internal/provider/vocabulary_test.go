package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/domainstats"
)

// TestTransfers_haveOneVocabulary: the statistics of a migration and a job that runs have the same names and types.
func TestTransfers_haveOneVocabulary(t *testing.T) {
	t.Parallel()
	members := func(d datasource.DataSource, names ...string) map[string]attr.Type {
		var resp datasource.SchemaResponse
		d.Schema(t.Context(), datasource.SchemaRequest{}, &resp)
		of := resp.Schema.Type()
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
	job := members(domainstats.NewDataSource(), "stats", "job")
	for name, kind := range members(conditions.NewDataSource(), "migration_state", "statistics") {
		if same, ok := job[name]; !ok {
			t.Errorf("a job has no %s", name)
		} else if !same.Equal(kind) {
			t.Errorf("%s is %s in a job, and %s in a migration", name, same, kind)
		}
	}
}
