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

// knownSource stands for the file of a configuration that doesn't change. The model doesn't have its path.
const knownSource = domain.KnownFile

// ignitionAttributes are recorded by the provider alone: a definition names a file, but not its content.
var ignitionAttributes = attributes{
	"config": schema.StringAttribute{
		MarkdownDescription: "Configuration for Ignition, as JSON. It is stored in the state; put passwords and keys " +
			"into `config_wo`. One of the two is required.",
		Optional: true,
	},
	"config_wo":         writeOnlyAttribute("config"),
	"config_wo_version": writeOnlyVersion("config", "the file is then created again"),
	"pool": schema.StringAttribute{
		MarkdownDescription: "Storage pool for the file, of type `dir`, `fs` or `netfs`. An existing file stays where it " +
			"is unless you set this. Default: the pool of the disk that the VM boots from, or of the next that is in a pool.",
		Optional: true,
	},
}

var ignitionType = objectType(ignitionAttributes)

func ignitionAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "[First boot with Ignition](../guides/first-boot.md#ignition) (Fedora CoreOS, Flatcar), from " +
			"a volume that is created, moved and removed with the VM. A change requires a restart, " +
			"and does nothing in a guest that has booted before.",
		Attributes: ignitionAttributes,
		CustomType: ignitionType,
		Optional:   true,
	}
}

// ignitionFile returns the declared file. It returns nil if the file is that of the prior model, because its path is
// unknown here, and while any value is unknown. It returns "" if the file was removed.
func (m *model) ignitionFile(prior *model) *string {
	digest := func(o types.Object) string { return firstBootDigest(ignitionAttributes, o) }
	stays := func(pool, was string) bool { return pool == "" || pool == was }
	pool := func(o types.Object) string { return text(open(o).string("pool")) }
	switch is, was := m.Ignition, prior.Ignition; {
	case !isKnown(is):
		return nil
	case isSet(is) && (!isSet(was) || isLeftFirstBoot(was)):
		return new(knownSource)
	case isSet(is) && digest(is) == digest(was) && stays(pool(is), pool(was)):
		return nil
	case isSet(is):
		return new(domain.UnknownFile)
	case isSet(was):
		return new("")
	default:
		return nil
	}
}

// ignitionToFleet adds the file to what the VM should have.
func (m *model) ignitionToFleet(d *fleet.Desired) {
	if m.addFirstBootVolume(d, domain.IgnitionKey, ignitionAttributes, m.Ignition) {
		d.Ignition = &firstboot.Ignition{Config: plainOrWriteOnly(open(m.Ignition), "config")}
	}
}

// ignitionFromFleet returns the prior block if the VM will have that file at its next start. Otherwise it returns what
// is left of it. If no block was declared, a file that the VM has at its next start is another's. Unless the policy
// restarts the guest, the removal of a file that the running VM has waits for its next start.
func ignitionFromFleet(vm *fleet.VM, prior types.Object, policy string) types.Object {
	record, made := vm.Metadata.OwnDisks[domain.IgnitionKey]
	spec := vm.DeclaredSpec()
	if prior.IsUnknown() {
		return types.ObjectNull(ignitionType.AttrTypes)
	}
	if made && isFirstBoot(record, ignitionAttributes, prior) && spec != nil && spec.Ignition != nil &&
		*spec.Ignition == record.Path {
		return prior
	}
	var stays []*domain.Spec
	if prior.IsNull() {
		stays = append(stays, spec)
	}
	if policy != fleet.PolicyRestart {
		stays = append(stays, vm.LiveSpec)
	}
	return leftFirstBoot(vm.LeftFirstBoot(domain.IgnitionKey, stays...), ignitionAttributes)
}

// validateIgnition checks a configuration as far as it is known. Unknown values are checked once they are known.
func (m *model) validateIgnition() diag.Diagnostics {
	if !isSet(m.Ignition) {
		return nil
	}
	at, a := path.Root(ignitionName), open(m.Ignition)
	diags := validateWriteOnly(at, ignitionAttributes, a)
	name := declaredAs(a, "config")
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
