package network

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// blockAttribute returns the attribute for a block of the definition. If the block isn't set, the definition is left as
// it is.
func blockAttribute(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Optional: true, Computed: true, Attributes: attributes,
	}
}

// partAttribute returns the attribute for a part of a block.
func partAttribute(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.SingleNestedAttribute{MarkdownDescription: description, Optional: true, Attributes: attributes}
}

func objectsAttribute(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: description, Optional: true,
		NestedObject: schema.NestedAttributeObject{Attributes: attributes},
	}
}

func requiredString(description string) schema.Attribute {
	return schema.StringAttribute{MarkdownDescription: description, Required: true}
}

func stringAttribute(description string) schema.Attribute {
	return schema.StringAttribute{MarkdownDescription: description, Optional: true}
}

var uuids = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func uuidAttribute(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true,
		Validators: []validator.String{stringvalidator.RegexMatches(uuids, "must be a UUID")},
	}
}

func stringsAttribute(description string) schema.Attribute {
	return schema.ListAttribute{MarkdownDescription: description, ElementType: types.StringType, Optional: true}
}

func boolAttribute(description string) schema.Attribute {
	return schema.BoolAttribute{MarkdownDescription: description, Optional: true}
}

func int64Attribute(description string, least, most int64) schema.Attribute {
	return schema.Int64Attribute{
		MarkdownDescription: description, Optional: true,
		Validators: []validator.Int64{int64validator.Between(least, most)},
	}
}
