package migrationcandidates

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the data source's state.
type model struct {
	onevm.Selection
	MigrationOptions types.Object         `tfsdk:"migration_options"`
	RawCommands      types.Bool           `tfsdk:"raw_commands"`
	PolicyName       types.String         `tfsdk:"migration_policy_name"`
	InForce          types.Object         `tfsdk:"migration_configuration"`
	CurrentHost      types.String         `tfsdk:"current_host"`
	Best             types.String         `tfsdk:"best"`
	Fitting          types.List           `tfsdk:"fitting"`
	Hosts            map[string]hostModel `tfsdk:"hosts"`
}

type hostModel struct {
	Fits       types.Bool                 `tfsdk:"fits"`
	Current    types.Bool                 `tfsdk:"current"`
	FreeMemory types.Int64                `tfsdk:"free_memory_bytes"`
	Method     types.String               `tfsdk:"method"`
	Blockers   []migrationoptions.Blocker `tfsdk:"blockers"`
}

// fromFleet sets the candidates and the effective options.
func (m *model) fromFleet(vm *fleet.VM, all []fleet.MoveCandidate, effective migration.EffectiveOptions) {
	m.PolicyName, m.InForce = value.NewStringOrNull(effective.Policy), migrationoptions.FromEffective(effective.Options)
	m.Selection = onevm.Of(vm)
	m.CurrentHost = types.StringValue(vm.Host)
	m.Best = types.StringNull()
	m.Hosts = make(map[string]hostModel, len(all))
	fitting := []string{}
	for _, c := range all {
		host := hostModel{
			Fits: types.BoolValue(c.Fits()), Current: types.BoolValue(c.Current),
			FreeMemory: types.Int64PointerValue(value.WholeOrNull(c.FreeMemory)),
			Method:     value.NewStringOrNull(c.Method), Blockers: migrationoptions.FromBlockers(c.Blockers),
		}
		m.Hosts[c.Host] = host
		if c.Fits() {
			fitting = append(fitting, c.Host)
		}
	}
	if len(fitting) > 0 {
		m.Best = types.StringValue(fitting[0])
	}
	m.Fitting = value.NewStringList(fitting)
}
