package secret

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// copiesElsewhere returns the hosts other than the known ones to which a VM that moved has brought the secret, and the
// hosts that can't tell. A move brings no private secret: libvirt doesn't give its value out.
func (r *secretResource) copiesElsewhere(
	ctx context.Context, known hostset.Set, m *model,
) (copies hostset.Set, silent map[string]error) {
	if m.Private.ValueBool() {
		return nil, nil
	}
	others := r.Data.Fleet.Connections().Present().Without(known.Names()...)
	answers := hostset.Ask(ctx, others, func(ctx context.Context, h *libvirt.Host) (*libvirt.UserSecret, error) {
		// It finds also one that a killed move has begun to bring.
		return h.SecretByUsage(ctx, m.Usage.ValueString(), m.UsageID.ValueString())
	})
	var names []string
	for _, a := range hostset.Found(answers) {
		if a.Value.UUID == m.ID.ValueString() {
			names = append(names, a.Host)
		}
	}
	return others.Named(names...), hostset.Silent(answers)
}

// notUpdated says on which hosts a copy may have kept its former definition, because they can't tell whether they have
// one. If the update writes a value, it is an error: with a warning alone, Terraform would refuse the value_wo_version
// that the state then has.
func notUpdated(m *model, silent map[string]error, writes bool) (diags diag.Diagnostics) {
	for _, f := range silences("update", m, silent) {
		if writes {
			f.Remedy = "Bring the host back, or set its fenced = true if it is off for good, and apply again. Until then the " +
				"state doesn't have the new value_wo_version."
			diags.Append(f.Error())
			continue
		}
		f.Remedy = "If it has one, change value_wo_version when the host answers: then the secret is written to it."
		diags.Append(f.Warning())
	}
	return diags
}

// notDeleted warns on which hosts a copy may remain, because they can't tell whether they have one.
func notDeleted(m *model, silent map[string]error) (diags diag.Diagnostics) {
	for _, f := range silences("delete", m, silent) {
		f.Remedy = "If it has one, remove it there: virsh secret-undefine " + m.ID.ValueString()
		diags.Append(f.Warning())
	}
	return diags
}

// silences returns what is unknown about hosts that can't tell whether they have a copy.
func silences(verb string, m *model, silent map[string]error) (failures []tfdiag.Failure) {
	for _, host := range value.Keys(silent) {
		failures = append(failures, tfdiag.Failure{
			Verb: verb, Noun: m.noun(), Host: host, Err: silent[host],
			Happened: "the host isn't in hosts, and can't tell whether a VM that moved there has brought a copy",
		})
	}
	return failures
}
