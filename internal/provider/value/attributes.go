package value

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
)

// ReportedString returns the attribute of a data source for a text.
func ReportedString(description string) datasource.StringAttribute {
	return datasource.StringAttribute{Computed: true, MarkdownDescription: description}
}

// ReportedNumber returns the attribute of a data source for a whole number.
func ReportedNumber(description string) datasource.Int64Attribute {
	return datasource.Int64Attribute{Computed: true, MarkdownDescription: description}
}

// StableString returns the attribute of a resource for a text that is known after its creation, such as an id. A plan
// keeps it until the provider plans another value.
func StableString(description string) resource.StringAttribute {
	return resource.StringAttribute{
		MarkdownDescription: description, Computed: true,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}
