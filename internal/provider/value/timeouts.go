package value

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// Timeouts returns the attribute timeouts of a resource, which accepts durations above zero.
func Timeouts(ctx context.Context, o timeouts.Opts) schema.Attribute {
	a := timeouts.Attributes(ctx, o)
	if object, ok := a.(schema.SingleNestedAttribute); ok {
		for name, a := range object.Attributes {
			if s, ok := a.(schema.StringAttribute); ok {
				s.Validators = []validator.String{PositiveDuration()}
				object.Attributes[name] = s
			}
		}
		object.MarkdownDescription = "How long operations may take. One that takes longer fails, and the next apply " +
			"continues it."
		return object
	}
	return a
}

// TimeoutsOf returns the attribute timeouts of a resource whose operations have one default limit. noun names the
// resource: "network".
func TimeoutsOf(noun string, byDefault time.Duration) schema.Attribute {
	limit := " the " + noun + ". Default: `" + strings.TrimSuffix(byDefault.String(), "0s") + "`."
	return Timeouts(context.Background(), timeouts.Opts{
		Create: true, Update: true, Delete: true,
		CreateDescription: "For creating" + limit,
		UpdateDescription: "For changing" + limit,
		DeleteDescription: "For deleting" + limit,
	})
}
