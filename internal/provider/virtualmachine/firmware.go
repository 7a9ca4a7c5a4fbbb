package virtualmachine

import (
	"cmp"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var firmwareAttributes = mergeAttributes(blockLevels["firmware"], attributes{
	"type": optionalString("Firmware. One of " + value.OneOf(domain.FirmwareTypes) + ". After a change, the next " +
		"start by an apply discards UEFI " +
		"variables, such as boot entries. Default for new VMs: `bios`, `efi` on aarch64, " +
		"unless `kernel` or `loader` is set."),
	"secure_boot": optionalBool("Whether only signed code is booted. `true` requires the type `efi`, and sets it if " +
		"`type` isn't set. A change also discards the UEFI variables. Default for new VMs: `false`."),
})

var firmwareType = objectType(firmwareAttributes)

func firmwareToDomain(o types.Object) domain.Firmware {
	a := open(o)
	f := domain.Firmware{Type: optionalText(a.string("type")), SecureBoot: value.Bool(a.bool("secure_boot"))}
	return f.WithType()
}

func firmwareFromDomain(s domain.Spec, prior *model) types.Object {
	a := map[string]attr.Value{
		"type":        stringOrNull(s.Firmware.Type),
		"secure_boot": types.BoolPointerValue(s.Firmware.SecureBoot),
	}
	readRows(a, "firmware", rowReader{facts: s.Values}, open(prior.Firmware), prior.Name.IsNull())
	return types.ObjectValueMust(firmwareType.AttrTypes, a)
}

// planFirmware plans the type that declared secure boot requires, and no secure boot setting and no files that belong
// to the other type of firmware.
func planFirmware(config, planned, prior types.Object) types.Object {
	if !isSet(config) || !isSet(planned) || !isSet(prior) {
		return planned
	}
	a, before, declared := open(planned), open(prior), open(config)
	if secure := declared.bool("secure_boot"); declared["type"].IsNull() && text(before.string("type")) != "efi" {
		switch {
		case secure.IsUnknown():
			a["type"] = types.StringUnknown()
		case secure.ValueBool():
			a["type"] = types.StringValue("efi")
		}
	}
	chosen := a["type"].Equal(before["type"])
	if declared["secure_boot"].IsNull() && !chosen {
		a["secure_boot"] = types.BoolUnknown()
	}
	if !chosen || !a["secure_boot"].Equal(before["secure_boot"]) {
		for _, name := range []string{"loader", "nvram", "nvram_template", "stateless"} {
			if declared[name].IsNull() {
				a[name] = nullLike(a[name])
			}
		}
	}
	return types.ObjectValueMust(firmwareType.AttrTypes, a)
}

// warnAboutVariables warns that a VM stops using its file with UEFI variables. The file stays on the host, and the
// guest doesn't find its variables in the new file.
func (p planning) warnAboutVariables() diag.Diagnostics {
	declared, old := open(p.config.Firmware).string("nvram"), text(open(p.state.Firmware).string("nvram"))
	if old == "" && p.live != nil {
		old = p.live.Values[nvramPath]
	}
	if !isSet(declared) || old == "" || text(declared) == old {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("firmware").AtName("nvram"),
		"File with UEFI variables is left", fmt.Sprintf(
			"From its next start on, virtual machine %q keeps its UEFI variables in another file. The file so far, %q, stays "+
				"on host %q.\n\nTo keep boot entries, copy it to the new path while the VM is off. Without a file there, the "+
				"guest begins with new variables. Remove the old file when it isn't needed any more.",
			text(p.state.Name), old, text(p.state.CurrentHost)))}
}

// checkVariables returns the problem that another VM of this plan may keep its UEFI variables in the same file. The
// fleet knows only the VMs that are there already.
func (r *Resource) checkVariables(p planning, d fleet.Desired) []fleet.Problem {
	files, host := d.NVRAMFiles(), d.Metadata.Host
	if p.state != nil {
		host = cmp.Or(host, text(p.state.CurrentHost))
		if d.Spec.Values[nvramPath] == "" || d.Spec.Values[nvramPath] == text(open(p.state.Firmware).string("nvram")) {
			return nil
		}
	}
	other, file := r.Data.Managed.KeepsVariables(files, d.Spec.Name, host)
	if other == "" {
		return nil
	}
	return []fleet.Problem{{
		Attribute: nvramPath, Summary: "File with UEFI variables belongs to another virtual machine",
		Detail: fmt.Sprintf("VM %q and VM %q of this configuration would keep their UEFI variables in one file, %s. Each "+
			"would change the other's, and the removal of one would delete them.", d.Spec.Name, other, file),
		Remedy: "Set firmware.nvram of one of them to another file, or pin them to different hosts with host.",
	}}
}

const nvramPath = "firmware.nvram"
