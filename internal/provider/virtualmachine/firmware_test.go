package virtualmachine

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestPlan_secureBootOfBIOS: secure boot without a type means the type efi, for a VM that exists as for a new one. The
// definition takes what is planned.
func TestPlan_secureBootOfBIOS(t *testing.T) {
	t.Parallel()
	before := minimal.with(in{"firmware": in{"type": "bios"}})
	for name, c := range map[string]struct {
		secure, kind attr.Value
	}{
		"on":      {types.BoolValue(true), types.StringValue("efi")},
		"off":     {types.BoolValue(false), types.StringValue("bios")},
		"unknown": {types.BoolUnknown(), types.StringUnknown()},
	} {
		config := modelOf(t, minimal.with(in{"firmware": in{"secure_boot": true}}))
		firmware := open(config.Firmware)
		firmware["secure_boot"] = c.secure
		config.Firmware = types.ObjectValueMust(firmwareType.AttrTypes, firmware)
		p := planning{config: config, state: stateAfterApply(t, before), hosts: []string{"kvm1"}}
		o := p.plan()
		if text := diagText(o.diags); text != "" {
			t.Errorf("%s: %s", name, text)
		}
		wantValue(t, name, open(o.planned.Firmware)["type"], c.kind)
		if c.secure.IsUnknown() {
			continue
		}
		d, _, err := definitionOf(modelOf(t, before))
		if err != nil {
			t.Fatal(err)
		}
		_, want := p.specs()
		if err := d.Apply(want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		is := d.Spec().Firmware
		wantValue(t, name+", as defined", types.StringPointerValue(is.Type), c.kind)
		wantValue(t, name+", as defined", types.BoolPointerValue(is.SecureBoot), c.secure)
	}
}
