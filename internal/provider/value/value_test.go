package value_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

func TestParseBytes_acceptsKubernetesSyntax(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]uint64{
		"2Gi": 2 << 30, "2048Mi": 2 << 30, "500Mi": 500 << 20, "1G": 1e9, "1.5Gi": 3 << 29, "1024": 1024, "1e3": 1000,
	} {
		got, err := value.ParseBytes(in)
		if err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestParseBytes_refusesWithTheValueAndTheReason(t *testing.T) {
	t.Parallel()
	for in, why := range map[string]string{
		"2 Gb": "can't be read", "2GB": "can't be read", "": "can't be read", "lots": "can't be read",
		"0": "greater than zero", "-1Gi": "greater than zero", "0.5": "whole number", "500m": "whole number",
		"10000000000G": "too large",
	} {
		_, err := value.ParseBytes(in)
		if err == nil {
			t.Errorf("ParseBytes(%q) accepted it", in)
			continue
		}
		for _, part := range []string{`"` + in + `"`, why, "such as \"2Gi\""} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseBytes(%q): %q doesn't say %q", in, err, part)
			}
		}
	}
}

// TestQuantityOrZero: "0" removes what was set where that can be removed, and is refused elsewhere.
func TestQuantityOrZero(t *testing.T) {
	t.Parallel()
	for kind, accepted := range map[basetypes.StringTypable]bool{
		value.QuantityType: false, value.WholeKiBOrZeroType: true,
	} {
		v, _ := kind.ValueFromString(t.Context(), basetypes.NewStringValue("0"))
		q, ok := v.(value.Quantity)
		var resp xattr.ValidateAttributeResponse
		q.ValidateAttribute(t.Context(), xattr.ValidateAttributeRequest{}, &resp)
		if !ok || resp.Diagnostics.HasError() == accepted || q.Bytes() == nil || *q.Bytes() != 0 {
			t.Errorf("%v: %v %v", accepted, q, resp.Diagnostics)
		}
	}
}

// TestParseBytes_readsExactSizes: an attribute that is read from a host is the size that a user could have written.
func TestParseBytes_readsExactSizes(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{2 << 30, 3 << 29, 1000, 1 << 60, 5 << 10} {
		got := domain.ExactSize(n)
		if back, err := value.ParseBytes(got); err != nil || back != n {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", got, back, err, n)
		}
	}
}

func TestQuantity_LacksUnit(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"20":      `"20" is 20 bytes. Write a unit, such as "20Gi".`,
		"1048575": `"1048575" is 1048575 bytes. Write a unit, such as "1048575Gi".`,
		"1048576": "", "0": "", "20Gi": "", "20k": "", "x": "",
	} {
		if got := value.NewQuantity(s).LacksUnit(); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestQuantity_isEqualByValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b value.Quantity
		want bool
	}{
		{value.NewQuantity("2Gi"), value.NewQuantity("2048Mi"), true},
		{value.NewQuantity("2Gi"), value.NewQuantity("2G"), false},
		{value.NewQuantity("bad"), value.NewQuantity("bad"), true},
		{value.NewQuantity("2Gi"), value.NewQuantityNull(), false},
		{value.NewQuantityUnknown(), value.NewQuantity("2Gi"), false},
	}
	for _, tt := range tests {
		got, diags := tt.a.StringSemanticEquals(t.Context(), tt.b)
		if diags.HasError() || got != tt.want {
			t.Errorf("%s and %s: equal = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDuration_isEqualByLength(t *testing.T) {
	t.Parallel()
	got, _ := value.NewDuration("60s").StringSemanticEquals(t.Context(), value.NewDuration("1m"))
	if !got {
		t.Error("60s and 1m differ")
	}
	if value.NewDuration("60s").Equal(value.NewDuration("1m")) {
		t.Error("60s and 1m are written the same")
	}
	if got := value.NewDurationNull().Or(time.Minute); got != time.Minute {
		t.Errorf("null.Or(1m) = %s", got)
	}
}

func TestValidateAttribute_namesValueAndSyntax(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   xattr.ValidateableAttribute
		want string
	}{
		"good quantity":     {value.NewQuantity("2Gi"), ""},
		"unknown quantity":  {value.NewQuantityUnknown(), ""},
		"null quantity":     {value.NewQuantityNull(), ""},
		"bad quantity":      {value.NewQuantity("2 Gb"), `"2 Gb" is not a valid quantity`},
		"good duration":     {value.NewDuration("1h30m"), ""},
		"zero duration":     {value.NewDuration("0s"), ""},
		"bad duration":      {value.NewDuration("180"), `"180" is not a valid duration: it can't be read`},
		"negative duration": {value.NewDuration("-1s"), `"-1s" is not a valid duration: it is negative`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var resp xattr.ValidateAttributeResponse
			tt.in.ValidateAttribute(t.Context(), xattr.ValidateAttributeRequest{Path: path.Root("size")}, &resp)
			if tt.want == "" {
				if resp.Diagnostics.HasError() {
					t.Errorf("refused: %v", resp.Diagnostics)
				}
				return
			}
			if resp.Diagnostics.ErrorsCount() != 1 || !strings.HasPrefix(resp.Diagnostics[0].Detail(), tt.want) {
				t.Errorf("got %v, want one error starting with %q", resp.Diagnostics, tt.want)
			}
		})
	}
}

func TestWholeKiB_offersTheNearestSizes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1Gi": "",
		"1G": `"1G" is 1000000000 bytes, which isn't a multiple of 1024: libvirt counts memory in KiB and would round it. ` +
			`The nearest sizes are "976562Ki" and "976563Ki".`,
	} {
		q, err := value.WholeKiBType.ValueFromTerraform(t.Context(), tftypes.NewValue(tftypes.String, in))
		if err != nil {
			t.Fatal(err)
		}
		checked, ok := q.(xattr.ValidateableAttribute)
		if !ok {
			t.Fatalf("%T checks nothing", q)
		}
		var resp xattr.ValidateAttributeResponse
		checked.ValidateAttribute(t.Context(), xattr.ValidateAttributeRequest{}, &resp)
		got := ""
		if resp.Diagnostics.HasError() {
			got = resp.Diagnostics[0].Detail()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestTypes_readFromTheWire(t *testing.T) {
	t.Parallel()
	for _, typ := range []attr.Type{value.QuantityType, value.DurationType} {
		for _, in := range []any{nil, tftypes.UnknownValue, "5m"} {
			wire := tftypes.NewValue(tftypes.String, in)
			got, err := typ.ValueFromTerraform(t.Context(), wire)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Type(t.Context()).Equal(typ) {
				t.Errorf("%s read as %s", typ, got.Type(t.Context()))
			}
			back, err := got.ToTerraformValue(t.Context())
			if err != nil || !back.Equal(wire) {
				t.Errorf("%s: %v came back as %v, %v", typ, wire, back, err)
			}
		}
	}
}

func TestOptional_unknownAndNullAreNil(t *testing.T) {
	t.Parallel()
	if value.String(types.StringUnknown()) != nil || value.String(types.StringNull()) != nil {
		t.Error("an unknown or null string crossed into Go")
	}
	if value.Bool(types.BoolUnknown()) != nil || value.Bool(types.BoolNull()) != nil {
		t.Error("an unknown or null boolean crossed into Go")
	}
	if value.Int(types.Int64Unknown()) != nil || value.Int(types.Int64Null()) != nil {
		t.Error("an unknown or null number crossed into Go")
	}
	if value.StringMap(types.MapUnknown(types.StringType)) != nil {
		t.Error("an unknown map crossed into Go")
	}
	if value.StringList(types.ListNull(types.StringType)) != nil {
		t.Error("a null list crossed into Go")
	}
	want := map[string]string{"app": "web", "tier": ""}
	if diff := cmp.Diff(want, value.StringMap(value.NewStringMap(want))); diff != "" {
		t.Error(diff)
	}
	if got := value.StringMap(value.NewStringMap(map[string]string{})); got == nil || len(got) != 0 {
		t.Errorf("an empty map became %v", got)
	}
	if diff := cmp.Diff([]string{"b", "a"}, value.StringList(value.NewStringList([]string{"b", "a"}))); diff != "" {
		t.Error(diff)
	}
}

// TestAmong_namesAttributeValueAndChoices: who mistypes a value of an enumeration reads what there is.
func TestAmong_namesAttributeValueAndChoices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is   types.String
		want string
	}{
		"another":   {types.StringValue("always"), `network.mode: "always" isn't one of Always, Halted.`},
		"top level": {types.StringValue("on"), `run_strategy: "on" isn't one of Always, Halted.`},
		"empty":     {types.StringValue(""), `network.mode: "" isn't one of Always, Halted.`},
		"one":       {types.StringValue("Halted"), ""},
		"null":      {types.StringNull(), ""},
		"unknown":   {types.StringUnknown(), ""},
	} {
		var resp validator.StringResponse
		at := path.Root("network").AtName("mode")
		if name == "top level" {
			at = path.Root("run_strategy")
		}
		req := validator.StringRequest{Path: at, ConfigValue: c.is}
		value.Among("Always", "Halted").ValidateString(t.Context(), req, &resp)
		got := ""
		if len(resp.Diagnostics) > 0 {
			got = resp.Diagnostics[0].Detail()
		}
		if got != c.want || len(resp.Diagnostics) > 1 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
