package migrationoptions

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Blocker is something that prevents a move of a VM, or may prevent it, in Terraform's state.
type Blocker struct {
	Reason    string  `tfsdk:"reason"`
	Status    string  `tfsdk:"status"`
	Attribute *string `tfsdk:"attribute"`
	Message   string  `tfsdk:"message"`
	Remedy    *string `tfsdk:"remedy"`
}

// BlockersOfDataSource returns the attribute that lists blockers.
func BlockersOfDataSource(description string) datasource.Attribute {
	return datasource.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: description,
		NestedObject: datasource.NestedAttributeObject{Attributes: toDataSource(map[string]resource.Attribute{
			"reason": computedString("Code of the blocker, such as `DisksNotLiveMigratable`. The guide [Migration " +
				"reason codes](../guides/migration-reason-codes.md) explains each."),
			"status": computedString("`False`: the VM can't be moved. `Unknown`: only the move itself can show " +
				"whether it works."),
			"attribute": computedString("Attribute of the VM that causes it, such as `disks.root`. Null if none does."),
			"message":   computedString("What the blocker is."),
			"remedy":    computedString("What removes the blocker."),
		})},
	}
}

// FromBlockers maps blockers. nil becomes an empty list.
func FromBlockers(blockers []status.Blocker) []Blocker {
	all := make([]Blocker, len(blockers))
	for i, b := range blockers {
		all[i] = Blocker{Reason: b.Reason, Status: string(b.Status), Message: b.Message}
		if b.Attribute != "" {
			all[i].Attribute = &b.Attribute
		}
		if b.Remedy != "" {
			all[i].Remedy = &b.Remedy
		}
	}
	return all
}
