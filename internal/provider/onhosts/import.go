package onhosts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
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

// ImportHosts sets the attribute hosts of an imported object to the hosts that have it, unless all of them do. A host
// that didn't answer is left out, and its copy shows once it answers.
func ImportHosts[T any](
	ctx context.Context, resp *resource.ImportStateResponse, found []hostset.Answer[T], all hostset.Set,
) {
	if names := hostNames(found); !slices.Equal(names, all.Names()) {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(HostsName), NewNames(names))...)
	}
}

// ImportRemedy says how to go on if an object exists that a configuration declares.
func ImportRemedy(typeName, id string) string {
	return fmt.Sprintf("If it belongs to this configuration, for example because Terraform was killed before it saved "+
		"the state, import it. Replace \"this\" with the name of the resource, and apply:\n\n  import {\n    "+
		"to = %s.this\n    id = %q\n  }\n\nOr run: terraform import %s.<name> %s", typeName, id, typeName, id)
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
