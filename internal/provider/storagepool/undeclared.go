package storagepool

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// declaredKey is the key of the private state's declaration. It is absent until the first apply after an import: then
// all that was imported counts as declared.
const declaredKey = "declared"

// declaration is what the configuration declared at the last apply of what a host has. The state also has what was
// imported and isn't declared, which no apply changes.
type declaration struct {
	Pool      storage.Pool
	Autostart bool
}

func readDeclaration(ctx context.Context, private meta.PrivateReader) (d *declaration, diags diag.Diagnostics) {
	_, diags = meta.ReadPrivate(ctx, private, declaredKey, &d)
	return d, diags
}

// write records what was applied: pool, and the autostart of the model, which is only declared.
func (m *model) write(ctx context.Context, pool storage.Pool, private meta.PrivateWriter) diag.Diagnostics {
	return meta.WritePrivate(ctx, private, declaredKey, declaration{Pool: pool, Autostart: !m.Autostart.IsNull()})
}

// declaredOnly returns the planned model without what only the state has: hosts keep what isn't declared.
func (m *model) declaredOnly(config *model) *model {
	declared := *m
	declared.Target, declared.Source, declared.Autostart = config.Target, config.Source, config.Autostart
	return &declared
}

// planUndeclared plans that what isn't declared stays as it is in the state, which is null for a new pool.
func planUndeclared(ctx context.Context, config, state *model, plan *tfsdk.Plan) (diags diag.Diagnostics) {
	for name, v := range map[string]struct{ config, state attr.Value }{
		"target": {config.Target, state.Target}, "source": {config.Source, state.Source},
		"autostart": {config.Autostart, state.Autostart},
	} {
		diags.Append(plan.SetAttribute(ctx, path.Root(name), orKept(ctx, v.config, v.state))...)
	}
	return diags
}

// orKept returns the declared value, with the state's where nothing is declared.
func orKept(ctx context.Context, config, state attr.Value) attr.Value {
	if config.IsNull() && state != nil && !state.IsNull() {
		return state
	}
	declared, isObject := config.(types.Object)
	kept, _ := state.(types.Object)
	if !isObject || declared.IsNull() || declared.IsUnknown() {
		return config
	}
	values := declared.Attributes()
	for name, v := range values {
		values[name] = orKept(ctx, v, kept.Attributes()[name])
	}
	return types.ObjectValueMust(declared.AttributeTypes(ctx), values)
}
