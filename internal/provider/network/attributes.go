package network

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// block is a block of the definition: left as it is where it isn't set.
func block(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Optional: true, Computed: true, Attributes: attributes,
	}
}

// part is a part of a block.
func part(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.SingleNestedAttribute{MarkdownDescription: description, Optional: true, Attributes: attributes}
}

func objects(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: description, Optional: true,
		NestedObject: schema.NestedAttributeObject{Attributes: attributes},
	}
}

func required(description string) schema.Attribute {
	return schema.StringAttribute{MarkdownDescription: description, Required: true}
}

func text(description string) schema.Attribute {
	return schema.StringAttribute{MarkdownDescription: description, Optional: true}
}

func texts(description string) schema.Attribute {
	return schema.ListAttribute{MarkdownDescription: description, ElementType: types.StringType, Optional: true}
}

func flag(description string) schema.Attribute {
	return schema.BoolAttribute{MarkdownDescription: description, Optional: true}
}

func integer(description string, least, most int64) schema.Attribute {
	return schema.Int64Attribute{
		MarkdownDescription: description, Optional: true,
		Validators: []validator.Int64{int64validator.Between(least, most)},
	}
}
