package onhosts

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Imported returns the answers of the hosts that have the imported object. If no host has it, diags says so, and lists
// the hosts that didn't answer. noun is the kind of resource in errors: "network".
func Imported[T any](
	answers []hostset.Answer[T], noun, id string,
) (found []hostset.Answer[T], diags diag.Diagnostics) {
	found = hostset.Found(answers)
	if len(found) > 0 {
		return found, nil
	}
	err := NotFound(noun, id)
	silent := hostset.Silent(answers)
	for _, host := range value.Keys(silent) {
		err = errors.Join(err, silent[host])
	}
	diags.Append(tfdiag.Failure{Verb: "import", Noun: noun, Err: err}.Error())
	return nil, diags
}

// ImportByName imports an object by its name: it sets id, name, and hosts unless every host has the object. A host that
// doesn't answer is left out, and its copy shows once it answers. Read fills in the rest. noun is as in Imported.
func ImportByName[T any](
	ctx context.Context, r *meta.Resource, noun string, read func(context.Context, *libvirt.Host, string) (*T, error),
	req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", fmt.Sprintf("%s %q", noun, req.ID), &resp.Diagnostics) {
		return
	}
	all := r.Data.Fleet.Connections().Present()
	found, diags := Imported(hostset.Ask(ctx, all, func(ctx context.Context, h *libvirt.Host) (*T, error) {
		return read(ctx, h, req.ID)
	}), noun, req.ID)
	resp.Diagnostics.Append(diags...)
	if diags.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), req.ID)...)
	if len(found) < len(all) {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(HostsName), value.NewStringSet(hostNames(found)))...)
	}
}

// ImportRemedy says how to continue if an object exists that a configuration declares. An import doesn't take it from
// another resource that has it: that one would delete it.
func ImportRemedy(typeName, id string) string {
	return fmt.Sprintf("If this apply replaces it, set another name, or leave create_before_destroy out of the lifecycle "+
		"of its resource.\n\nIf it belongs to another resource of this configuration, because that was renamed, moved to a "+
		"module, or has another key in for_each, don't import it. Add:\n\n  moved {\n    from = %[1]s.<former name>\n    "+
		"to   = %[1]s.<name>\n  }\n\nIf it belongs to this configuration and no resource has it, for example because "+
		"Terraform was killed before it saved the state, import it. Replace \"this\" with the name of the resource, and "+
		"apply:\n\n  import {\n    to = %[1]s.this\n    id = %[2]q\n  }\n\nOr run: terraform import %[1]s.<name> %[2]s",
		typeName, id)
}

// TakenOver returns the warning that hosts have what a new resource is to have, and that it takes that over. No host
// knows which resources have it. detail says what the hosts have.
func TakenOver(at path.Path, detail string) diag.Diagnostic {
	return diag.NewAttributeWarningDiagnostic(at, "Object exists already", detail+"\n\nThere is nothing to do if an "+
		"interrupted apply has left it, or if this apply replaces or renames its resource. But if a resource of another "+
		"configuration has it, both have it from now on, and a destroy of either removes it for both. Then declare it in "+
		"one of them only. To take a resource out of a configuration without a destroy, use a removed block with "+
		"lifecycle { destroy = false }.")
}

// PoolRemedy says what to do if no host has the storage pool that a configuration names.
const PoolRemedy = "Correct pool. For a storage pool of this configuration, set it to the name attribute of the " +
	"virtfleet_storage_pool, which is then created first. " + AbsentFromPlan

// AbsentFromPlan says what to do if a plan lacks an object that the configuration names, but doesn't declare.
const AbsentFromPlan = "What another provider block or tool creates has to exist before the plan: apply that first, " +
	"with -target. " + tfdiag.DestroyAnyway

func hostNames[T any](answers []hostset.Answer[T]) []string {
	names := make([]string, len(answers))
	for i, a := range answers {
		names[i] = a.Host
	}
	return names
}
