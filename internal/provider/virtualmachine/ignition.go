package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// ignitionName is the attribute's name.
const ignitionName = "ignition"

// knownSource stands for the file of a configuration that isn't to change, whose path the model doesn't have.
const knownSource = "/as-it-is"

// ignitionAttributes are what only we know: a definition names a file, not what is in it.
var ignitionAttributes = attributes{
	"config": schema.StringAttribute{
		MarkdownDescription: "Configuration for Ignition, as JSON. It is stored in the state; put passwords and keys " +
			"into `config_wo`. One of the two is required.",
		Optional: true,
	},
	"config_wo": writeOnlyAttribute("config"),
	"wo_version": schema.StringAttribute{
		MarkdownDescription: "Any text, such as `1`. Change it when `config_wo` changes, because Terraform can't see " +
			"that; the file is then created again. Required with `config_wo`.",
		Optional: true,
	},
	"pool": schema.StringAttribute{
		MarkdownDescription: "Storage pool for the file, of type `dir`, `fs` or `netfs`. Default: the pool of the disk " +
			"that the VM boots from, or of the next that is in a pool.",
		Optional: true,
	},
}

var ignitionType = objectType(ignitionAttributes)

func ignitionAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "First boot with Ignition (Fedora CoreOS, Flatcar). QEMU passes the configuration to the " +
			"guest (`fw_cfg`, `opt/com.coreos/config`) from a volume that is created, moved and removed with the VM, and " +
			"that only QEMU can read. Ignition reads it at the first boot only. A change requires a restart.",
		Attributes: ignitionAttributes,
		CustomType: ignitionType,
		Optional:   true,
	}
}

// ignitionFile is the file that is declared. Where it is what the prior model has, nothing is declared: it isn't known
// its path here. Nor is it as long as something about it isn't known.
func (m *model) ignitionFile(prior *model) *string {
	digest := func(o types.Object) string { return firstBootDigest(ignitionAttributes, o) }
	pool := func(o types.Object) string { return text(open(o).string("pool")) }
	switch is, was := m.Ignition, prior.Ignition; {
	case !isKnown(is):
		return nil
	case isSet(is) && !isSet(was):
		return new(knownSource)
	case isSet(is) && digest(is) == digest(was) && pool(is) == pool(was):
		return nil
	case isSet(is):
		return new(unknownSource)
	case isSet(was):
		return new("")
	default:
		return nil
	}
}

// ignitionToFleet asks for the file.
func (m *model) ignitionToFleet(d *fleet.Desired) {
	if !isSet(m.Ignition) {
		return
	}
	pool := m.firstBootPool(m.Ignition)
	if !isSet(pool) {
		return // Not before everything is known.
	}
	d.Ignition = &firstboot.Ignition{Config: m.ignitionConfig()}
	makeFirstBoot(d, domain.IgnitionKey, pool, firstBootDigest(ignitionAttributes, m.Ignition))
}

// ignitionConfig is the configuration, as far as it is known.
func (m *model) ignitionConfig() string {
	a := open(m.Ignition)
	return text(a.string("config")) + text(a.string("config"+writeOnlySuffix))
}

// ignitionFromFleet reads back whether the VM has, at its next start, the file that the prior state has. Otherwise the
// state has none.
func ignitionFromFleet(vm *fleet.VM, prior types.Object) types.Object {
	record, made := vm.Metadata.OwnDisks[domain.IgnitionKey]
	spec := vm.PersistentSpec
	if spec == nil {
		spec = vm.LiveSpec
	}
	if !made || record.Making || record.Content != firstBootDigest(ignitionAttributes, prior) || prior.IsUnknown() ||
		spec == nil || spec.Ignition == nil || *spec.Ignition != record.Path {
		return types.ObjectNull(ignitionType.AttrTypes)
	}
	return prior
}

// validateIgnition checks a configuration as far as it can be. What isn't known yet is checked when it is.
func (m *model) validateIgnition() diag.Diagnostics {
	if !isSet(m.Ignition) {
		return nil
	}
	at, a := path.Root(ignitionName), open(m.Ignition)
	diags := validateWriteOnly(at, ignitionAttributes, a)
	name := "config"
	if v := a[name+writeOnlySuffix]; !v.IsNull() {
		name += writeOnlySuffix
	}
	switch v := a.string(name); {
	case v.IsUnknown():
	case v.IsNull():
		diags.Append(attrpath.Error(at.AtName(name), invalid, "It is required, or config_wo."))
	default:
		for _, problem := range firstboot.ValidateIgnition(v.ValueString()) {
			diags.Append(attrpath.Error(at.AtName(name), invalid, problemText(problem)))
		}
	}
	return append(diags, m.validateFirstBootPool(at, m.Ignition)...)
}
