package hosts

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/host"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := host.QuestionAttributes()
	maps.Copy(attributes, map[string]schema.Attribute{
		"labels": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Only hosts that have all of these labels. Default: all hosts.",
		},
		"names": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Names of the hosts (keys of the provider's `hosts`), in alphabetical order.",
		},
		"hosts": schema.MapNestedAttribute{
			Computed: true,
			MarkdownDescription: "The hosts by name. Attributes that only the host knows are null while it doesn't " +
				"answer.",
			NestedObject: schema.NestedAttributeObject{Attributes: host.Attributes()},
		},
	})
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads what the hosts of the fleet are, what they can run, and how much of them is in " +
			"use. A host that doesn't answer is listed with `reachable = false` and the reason in `error`.",
		Attributes: attributes,
	}
}
