package volume

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestReplacing: what can be set replaces a volume, with the exception of what ModifyPlan handles, and of timeouts,
// which say nothing about the volume.
func TestReplacing(t *testing.T) {
	t.Parallel()
	var resp resource.SchemaResponse
	(&volumeResource{}).Schema(t.Context(), resource.SchemaRequest{}, &resp)
	var want []string
	for name, a := range resp.Schema.Attributes {
		changed := []string{"size", "host", "permissions", "timeouts"}
		if (a.IsRequired() || a.IsOptional()) && !slices.Contains(changed, name) {
			want = append(want, name)
			// Not set is false. Without a default here, to write that down would replace the volume, and lose its data.
			if _, known := defaults[name]; a.GetType().Equal(types.BoolType) && !known {
				t.Errorf("%s has no default", name)
			}
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(replacing)); !slices.Equal(got, want) {
		t.Errorf("%q replace the volume; by the schema %q do", got, want)
	}
}

// TestReplacements: a default that is written down replaces nothing, nor does what describes an imported volume, nor a
// value that is known after apply. Another secret is no other encryption.
func TestReplacements(t *testing.T) {
	t.Parallel()
	unknown, full := tftypes.UnknownValue, "full"
	plain, encrypted := &importedAs{}, &importedAs{Encrypted: true}
	luks := map[string]tftypes.Value{"secret": tftypes.NewValue(tftypes.String, "1")}
	other := map[string]tftypes.Value{"secret": tftypes.NewValue(tftypes.String, "2")}
	later := map[string]tftypes.Value{"secret": tftypes.NewValue(tftypes.String, unknown)}
	type values = map[string]any
	overlay, fullClone := values{"image": "p/a"}, values{"image": "p/a", "clone": full}
	for name, tt := range map[string]struct {
		was, want values
		as        *importedAs
		replaced  []string
	}{
		"preallocation, its default":  {nil, values{"preallocation": "off"}, nil, nil},
		"without its default":         {values{"preallocation": "off"}, nil, nil, nil},
		"clone, its default":          {overlay, values{"image": "p/a", "clone": "overlay"}, nil, nil},
		"preallocation":               {nil, values{"preallocation": full}, nil, []string{"preallocation"}},
		"an unknown one":              {nil, values{"preallocation": unknown}, nil, nil},
		"an unknown image":            {overlay, values{"image": unknown}, nil, nil},
		"another image":               {overlay, values{"image": "p/b"}, nil, []string{"image"}},
		"an unknown origin":           {values{"copy_of": "p/a"}, values{"copy_of": unknown}, nil, nil},
		"another secret":              {values{"encryption": luks}, values{"encryption": other}, nil, nil},
		"an unknown secret":           {values{"encryption": luks}, values{"encryption": later}, nil, nil},
		"unknown encryption":          {values{"encryption": luks}, values{"encryption": unknown}, nil, nil},
		"encryption":                  {nil, values{"encryption": later}, nil, []string{"encryption"}},
		"no encryption":               {values{"encryption": luks}, nil, nil, []string{"encryption"}},
		"clone":                       {overlay, fullClone, nil, []string{"clone"}},
		"the format of a device":      {values{"format": ""}, values{"format": "raw"}, nil, nil},
		"another format of a device":  {values{"format": ""}, values{"format": "qcow2"}, nil, []string{"format"}},
		"format":                      {values{"format": "qcow2"}, values{"format": "raw"}, nil, []string{"format"}},
		"another pool":                {values{"pool": "p"}, values{"pool": "q"}, plain, []string{"pool"}},
		"imported: how it was made":   {nil, values{"preallocation": full}, plain, nil},
		"imported: changed later":     {values{"preallocation": full}, nil, plain, []string{"preallocation"}},
		"imported: a copy":            {nil, values{"copy_of": "p/a"}, plain, nil},
		"imported: a full clone":      {nil, fullClone, plain, nil},
		"imported: of an unknown one": {nil, values{"image": unknown, "clone": full}, plain, nil},
		"imported: no overlay":        {nil, overlay, plain, []string{"image"}},
		"imported: an overlay":        {overlay, values{"image": "other/a", "clone": "overlay"}, plain, nil},
		"imported: of another image":  {overlay, values{"image": "p/b"}, plain, []string{"image"}},
		"imported: no full clone":     {overlay, fullClone, plain, []string{"clone"}},
		"imported: encrypted":         {nil, values{"encryption": luks}, encrypted, nil},
		"imported: undeclared":        {values{"encryption": luks}, nil, encrypted, nil},
		"imported: not encrypted":     {nil, values{"encryption": luks}, plain, []string{"encryption"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := func(set values) map[string]tftypes.Value {
				all := map[string]tftypes.Value{}
				for _, name := range replacing {
					kind := tftypes.Type(tftypes.String)
					if name == "encryption" {
						kind = tftypes.Object{AttributeTypes: map[string]tftypes.Type{"secret": tftypes.String}}
					}
					all[name] = tftypes.NewValue(kind, set[name])
				}
				return all
			}
			if got, _ := replacements(object(tt.want), object(tt.was), tt.as); !slices.Equal(got, tt.replaced) {
				t.Errorf("%q replace the volume, want %q", got, tt.replaced)
			}
		})
	}
}
