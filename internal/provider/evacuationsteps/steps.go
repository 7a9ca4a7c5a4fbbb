package evacuationsteps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Step is one VM of an evacuation.
type Step struct {
	VirtualMachineID    types.String   `tfsdk:"virtual_machine_id"`
	Name                types.String   `tfsdk:"name"`
	Strategy            types.String   `tfsdk:"strategy"`
	Origin              types.String   `tfsdk:"origin"`
	PolicyName          types.String   `tfsdk:"eviction_policy_name"`
	MigrationPolicyName types.String   `tfsdk:"migration_policy_name"`
	Method              types.String   `tfsdk:"method"`
	Target              types.String   `tfsdk:"target"`
	Transfer            value.Quantity `tfsdk:"transfer"`
	Blockers            types.List     `tfsdk:"blockers"`
}

// PolicyName is the name of the attribute that says which eviction policy matches a VM.
const PolicyName = "eviction_policy_name"

var descriptions = map[string]string{
	"virtual_machine_id": "UUID of the VM.",
	"name":               "Name of the VM.",
	"strategy":           "Eviction strategy of the VM.",
	"origin": "Where the strategy comes from: `" + evacuation.OriginVM + "` (the VM's own), `" +
		evacuation.OriginPolicy + "` or `" + evacuation.OriginProvider + "`.",
	PolicyName: "Name of the `virtfleet_eviction_policy` that matches the VM. Null: none.",
	migrationoptions.PolicyName: "Name of the `virtfleet_migration_policy` that applies to the move. Null: none, or the " +
		"VM isn't moved.",
	"method": "What is done with the VM: `" + strings.Join([]string{
		evacuation.MethodLive, evacuation.MethodCold, evacuation.MethodShutdown, evacuation.MethodSave,
		evacuation.MethodExternal,
	}, "`, `") + "`, `" + evacuation.MethodLeave + "` (it is off, and stays; with autostart, it starts when the host " +
		"boots), `" + evacuation.MethodPinned + "` (by " +
		"its `host`: the apply drains the others, then fails) or `" + evacuation.MethodBlocked + "` (the plan of the drain " +
		"fails).",
	"target": "Host that the VM moves to. Null: none.",
	"transfer": "Least amount to copy: memory of a running VM, and disks, images and UEFI variables whose " +
		"size is known. Memory " +
		"that the guest changes meanwhile is copied again. Null: nothing whose size is known.",
	"blockers": "Why the VM is `Blocked` or `Pinned`. For a VM that runs and is evicted by its `fallback`: why it can't " +
		"migrate live.",
}

// DataSource returns the attributes of a step in a data source.
func DataSource() map[string]datasource.Attribute {
	all := map[string]datasource.Attribute{}
	for name, description := range descriptions {
		switch name {
		case "transfer":
			all[name] = datasource.StringAttribute{
				MarkdownDescription: description, Computed: true, CustomType: value.QuantityType,
			}
		case "blockers":
			all[name] = datasource.ListAttribute{
				MarkdownDescription: description, Computed: true, ElementType: types.StringType,
			}
		default:
			all[name] = datasource.StringAttribute{MarkdownDescription: description, Computed: true}
		}
	}
	return all
}

// Resource returns the attributes of a step in a resource, whose steps come from the data source.
func Resource() map[string]resource.Attribute {
	all := map[string]resource.Attribute{}
	for name, description := range descriptions {
		required := slices.Contains([]string{"virtual_machine_id", "name", "strategy", "origin", "method"}, name)
		switch name {
		case "transfer":
			all[name] = resource.StringAttribute{
				MarkdownDescription: description, Optional: true, CustomType: value.QuantityType,
			}
		case "blockers":
			all[name] = resource.ListAttribute{
				MarkdownDescription: description, Optional: true, ElementType: types.StringType,
			}
		default:
			all[name] = resource.StringAttribute{
				MarkdownDescription: description, Required: required, Optional: !required,
			}
		}
	}
	return all
}

// FromFleet maps the fleet's steps.
func FromFleet(steps []evacuation.Step) []Step {
	all := make([]Step, len(steps))
	for i, s := range steps {
		all[i] = Step{
			VirtualMachineID: types.StringValue(s.UUID), Name: types.StringValue(s.Name),
			Strategy: types.StringValue(s.Strategy), Origin: types.StringValue(s.Origin),
			PolicyName: value.NewStringOrNull(s.Policy), MigrationPolicyName: value.NewStringOrNull(s.MigrationPolicy),
			Method: types.StringValue(s.Method), Target: value.NewStringOrNull(s.Target), Transfer: value.NewQuantityNull(),
			Blockers: value.NewStringList(s.Blockers),
		}
		if s.Transfer > 0 {
			all[i].Transfer = value.NewQuantityFromBytes(s.Transfer)
		}
	}
	return all
}

// ToFleet returns the fleet's steps for a known list, and nil for null.
func ToFleet(ctx context.Context, list types.List) ([]evacuation.Step, diag.Diagnostics) {
	if list.IsNull() || list.IsUnknown() {
		return nil, nil
	}
	var steps []Step
	diags := list.ElementsAs(ctx, &steps, false)
	all := make([]evacuation.Step, len(steps))
	for i, s := range steps {
		all[i] = evacuation.Step{
			UUID: s.VirtualMachineID.ValueString(), Name: s.Name.ValueString(), Strategy: s.Strategy.ValueString(),
			Origin: s.Origin.ValueString(), Policy: s.PolicyName.ValueString(), Method: s.Method.ValueString(),
			MigrationPolicy: s.MigrationPolicyName.ValueString(),
			Target:          s.Target.ValueString(), Blockers: value.StringList(s.Blockers),
		}
		if n := s.Transfer.Bytes(); n != nil {
			all[i].Transfer = *n
		}
	}
	return all, diags
}

// Text lists steps as text for users, one on each line.
func Text(steps []evacuation.Step) string {
	if len(steps) == 0 {
		return "  (it has no VMs)"
	}
	lines := make([]string, len(steps))
	for i, s := range steps {
		lines[i] = fmt.Sprintf("  %d. %s: %s", i+1, s.Name, methodText(s))
		if s.Transfer > 0 {
			lines[i] += ", " + domain.FormatSize(s.Transfer)
		}
		lines[i] += fmt.Sprintf(" (%s, %s)", s.Strategy, originText(s))
		if s.MigrationPolicy != "" {
			lines[i] += ", tuned by migration policy " + s.MigrationPolicy
		}
		if len(s.Blockers) > 0 {
			lines[i] += blockedText(s) + strings.Join(s.Blockers, "; ")
		}
		for _, doubt := range s.Doubts {
			lines[i] += "\n     not known yet, and may block it: " + doubt
		}
	}
	return strings.Join(lines, "\n")
}

// DoubtText lists the checks of the moves that have no result yet, one on each line; "" for none.
func DoubtText(steps []evacuation.Step) string {
	var lines []string
	for _, s := range steps {
		for _, doubt := range s.Doubts {
			lines = append(lines, fmt.Sprintf("  - %s to %s: %s", s.Name, s.Target, doubt))
		}
	}
	return strings.Join(lines, "\n")
}

func methodText(s evacuation.Step) string {
	switch s.Method {
	case evacuation.MethodLive:
		return "moves to " + s.Target + " while it runs"
	case evacuation.MethodCold:
		return "moves to " + s.Target + " while it is off"
	case evacuation.MethodShutdown:
		return "is shut down"
	case evacuation.MethodSave:
		return "is saved to the host's disk"
	case evacuation.MethodLeave:
		if s.StartsAtBoot {
			return "is off and stays, but has autostart: it starts when the host boots, also during the maintenance"
		}
		return "is off and stays"
	case evacuation.MethodExternal:
		return "waits until another tool moves it"
	case evacuation.MethodPinned:
		return "stays, and prevents the host from being drained"
	default:
		return "blocks"
	}
}

// blockedText introduces the blockers of a step.
func blockedText(s evacuation.Step) string {
	if s.Method == evacuation.MethodBlocked || s.Method == evacuation.MethodPinned {
		return ": "
	}
	return ", because it can't migrate live: "
}

func originText(s evacuation.Step) string {
	switch s.Origin {
	case evacuation.OriginPolicy:
		return "policy " + s.Policy
	case evacuation.OriginVM:
		return "its own"
	default:
		return "the provider's default"
	}
}
