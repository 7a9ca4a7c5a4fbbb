package volume

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
)

// TestReplacing: the attributes that replace a volume are those of the schema.
func TestReplacing(t *testing.T) {
	t.Parallel()
	var resp resource.SchemaResponse
	(&volumeResource{}).Schema(t.Context(), resource.SchemaRequest{}, &resp)
	ofString := reflect.TypeOf(stringplanmodifier.RequiresReplace())
	ofObject := reflect.TypeOf(objectplanmodifier.RequiresReplace())
	var want []string
	for name, a := range resp.Schema.Attributes {
		var modifiers []any
		switch a := a.(type) {
		case schema.StringAttribute:
			for _, m := range a.PlanModifiers {
				modifiers = append(modifiers, m)
			}
		case schema.SingleNestedAttribute:
			for _, m := range a.PlanModifiers {
				modifiers = append(modifiers, m)
			}
		}
		if slices.ContainsFunc(modifiers, func(m any) bool {
			return reflect.TypeOf(m) == ofString || reflect.TypeOf(m) == ofObject
		}) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(replacing)); !slices.Equal(got, want) {
		t.Errorf("%q replace the volume; by the schema %q do", got, want)
	}
}
