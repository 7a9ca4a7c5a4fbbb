package value_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

func TestPlain_goesThereAndBack(t *testing.T) {
	t.Parallel()
	type inner struct {
		Port int    `json:"port,omitzero"`
		On   *bool  `json:"on,omitzero"`
		Name string `json:"name,omitzero"`
	}
	type outer struct {
		List []inner           `json:"list,omitzero"`
		Map  map[string]string `json:"map,omitzero"`
	}
	of := types.ObjectType{AttrTypes: map[string]attr.Type{
		"port": types.Int64Type, "on": types.BoolType, "name": types.StringType,
	}}
	whole := types.ObjectType{AttrTypes: map[string]attr.Type{
		"list": types.ListType{ElemType: of}, "map": types.MapType{ElemType: types.StringType},
	}}
	object := func(port, on, name attr.Value) attr.Value {
		return types.ObjectValueMust(of.AttrTypes, map[string]attr.Value{"port": port, "on": on, "name": name})
	}
	list := types.ListValueMust(of, []attr.Value{
		object(types.Int64Value(80), types.BoolValue(false), types.StringNull()),
		object(types.Int64Null(), types.BoolNull(), types.StringValue("x")),
	})
	v := types.ObjectValueMust(whole.AttrTypes, map[string]attr.Value{
		"list": list, "map": types.MapNull(types.StringType),
	})
	plain, known := value.Plain(v)
	var got outer
	if err := value.Decode(plain, &got); err != nil || !known {
		t.Fatal(err, known)
	}
	if len(got.List) != 2 || got.List[0].Port != 80 || *got.List[0].On || got.List[1].On != nil || got.Map != nil {
		t.Errorf("got %v", got.List)
	}
	back, err := value.Encode(whole, got)
	if err != nil || !back.Equal(v) {
		t.Errorf("got %v, %v", back, err)
	}
	if null, err := value.Encode(whole, (*outer)(nil)); err != nil || !null.IsNull() {
		t.Errorf("got %v, %v", null, err)
	}
	unknown := types.ListValueMust(types.StringType, []attr.Value{types.StringUnknown()})
	if _, known := value.Plain(unknown); known {
		t.Error("a list with an unknown element is known")
	}
}
