package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var firmwareAttributes = attributes{
	"type": optionalString("Firmware. One of " + value.OneOf(domain.FirmwareTypes) + ". If it changes, the next start " +
		"by an apply uses new UEFI variables: boot entries that the guest made are lost."),
	"secure_boot": optionalBool("Whether only signed code is booted. Requires the type `efi`. A change also creates " +
		"new UEFI variables."),
}

var firmwareType = objectType(firmwareAttributes)

func firmwareToDomain(o types.Object) domain.Firmware {
	a := open(o)
	return domain.Firmware{Type: optionalText(a.string("type")), SecureBoot: value.Bool(a.bool("secure_boot"))}
}

func firmwareFromDomain(f domain.Firmware) types.Object {
	return types.ObjectValueMust(firmwareType.AttrTypes, map[string]attr.Value{
		"type":        stringOrNull(f.Type),
		"secure_boot": types.BoolPointerValue(f.SecureBoot),
	})
}

// settleFirmware plans no secure boot that came with the other type of firmware.
func settleFirmware(config, planned, prior types.Object) types.Object {
	if !set(config) || !set(planned) || !set(prior) {
		return planned
	}
	a, before := open(planned), open(prior)
	if !open(config)["secure_boot"].IsNull() || a["type"].Equal(before["type"]) {
		return planned
	}
	a["secure_boot"] = types.BoolUnknown()
	return types.ObjectValueMust(firmwareType.AttrTypes, a)
}
