package moving

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Blocker is something in the way of moving a machine, in Terraform's state.
type Blocker struct {
	Reason    string  `tfsdk:"reason"`
	Status    string  `tfsdk:"status"`
	Attribute *string `tfsdk:"attribute"`
	Message   string  `tfsdk:"message"`
	Remedy    *string `tfsdk:"remedy"`
}

// BlockersOfDataSource is the attribute with all that is in the way.
func BlockersOfDataSource(description string) datasource.Attribute {
	return datasource.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: description,
		NestedObject: datasource.NestedAttributeObject{Attributes: toDataSource(map[string]resource.Attribute{
			"reason": text("KubeVirt's reason code, or one named alike, such as `DisksNotLiveMigratable`."),
			"status": text("`False`: it keeps the machine from being moved. `Unknown`: it may, and only trying settles " +
				"it."),
			"attribute": text("Attribute of the machine that it is about, such as `disks.root`; null for none."),
			"message":   text("What is in the way."),
			"remedy":    text("What would lift it."),
		})},
	}
}

// FromBlockers maps what is in the way; nothing is an empty list.
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
