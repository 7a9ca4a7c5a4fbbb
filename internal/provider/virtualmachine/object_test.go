package virtualmachine

import (
	"maps"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"pgregory.net/rapid"
)

// TestView_asTheFramework: a view is what the framework returns, for each object of each block.
func TestView_asTheFramework(t *testing.T) {
	t.Parallel()
	if !isAttributesField {
		t.Error("this version of the framework keeps the attributes of objects elsewhere, so that view copies them")
	}
	same := func(a, b attr.Value) bool { return a.Equal(b) }
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range shapes {
			if s.fields == nil || !s.typ.Equal(types.ObjectType{AttrTypes: s.attributeTypes()}) {
				continue
			}
			raw := drawValue(s.typ.TerraformType(t.Context()), 1).Draw(t, s.path)
			v, err := s.typ.ValueFromTerraform(t.Context(), raw)
			if err != nil {
				t.Fatal(err)
			}
			o, ok := v.(types.Object)
			if !ok {
				t.Fatalf("%s is a %T", s.path, v)
			}
			got, want := view(o), open(o)
			if (got == nil) != (want == nil) || !maps.EqualFunc(got, want, same) {
				t.Fatalf("%s: the view is %v, want %v", s.path, got, want)
			}
		}
	})
}

// TestOpen_isACopy: a change of what was opened doesn't change the object.
func TestOpen_isACopy(t *testing.T) {
	t.Parallel()
	o := types.ObjectValueMust(map[string]attr.Type{"a": types.StringType}, map[string]attr.Value{
		"a": types.StringValue("before"),
	})
	open(o)["a"] = types.StringValue("after")
	if got := text(view(o).string("a")); got != "before" {
		t.Errorf("the object has changed: %q", got)
	}
}
