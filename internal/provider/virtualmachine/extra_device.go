package virtualmachine

import (
	"cmp"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// unknownDevice stands for a new device whose XML is still unknown.
const unknownDevice = "<unknown/>"

func extraDevicesAttribute() schema.Attribute {
	return schema.MapAttribute{
		MarkdownDescription: "Devices without an attribute, by a key: each is one element below " +
			"[`<devices>`](https://libvirt.org/formatdomain.html#devices), without `<alias>`. Only what it contains is " +
			"compared. A change requires a restart. What libvirt's schema refuses fails only the apply. The state has it: " +
			"**no passwords**.",
		ElementType: types.StringType,
		Optional:    true,
	}
}

var extraDeviceBlock = block{
	toDomain: func(m, prior *model, s *domain.Spec) { s.ExtraDevices = m.extraDevices(prior) },
	fromDomain: func(m *model, s domain.Spec, _ observation, prior *model) {
		all := types.MapNull(types.StringType)
		if len(s.ExtraDevices) > 0 {
			all = value.NewStringMap(s.ExtraDevices)
		}
		m.ExtraDevices = kept(domain.ExtraDevices, all, prior.ExtraDevices)
	},
}

// extraDevices returns the devices that are declared as XML. Unknown values are taken from prior, if there is one.
func (m *model) extraDevices(prior *model) map[string]string {
	var before map[string]string
	if prior != nil {
		before = prior.extraDevices(nil)
	}
	if m.ExtraDevices.IsUnknown() {
		return before
	}
	// Devices with our alias that aren't declared will be removed.
	all := map[string]string{}
	for key, v := range m.ExtraDevices.Elements() {
		switch xml, _ := v.(types.String); {
		case xml.IsUnknown():
			all[key] = cmp.Or(before[key], unknownDevice)
		case !xml.IsNull():
			all[key] = domain.NormalDeviceXML(xml.ValueString())
		}
	}
	return all
}
