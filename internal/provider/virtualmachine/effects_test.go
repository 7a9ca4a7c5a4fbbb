package virtualmachine

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestEffects_areOfAttributes: the guide that lists them names attributes that users can set.
func TestEffects_areOfAttributes(t *testing.T) {
	t.Parallel()
	known := map[string]bool{domain.ExtraDevices + ".*": true}
	walkSchema("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		known[at] = true
		if _, isMap := a.(schema.MapNestedAttribute); isMap {
			known[at+".*"] = true
		}
	})
	for _, e := range domain.Effects() {
		if !known[e.Path] {
			t.Errorf("%s isn't an attribute", e.Path)
		}
	}
}
