package evictionpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_eviction_policy"

// noun is the resource's name in errors.
const noun = "eviction policy"

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return fleetpolicy.New(fleetpolicy.Kind[evacuation.Policy]{
		TypeName: TypeName, Noun: noun, Schema: policySchema, In: (*fleet.Fleet).EvictionPolicies,
		NewModel: func() fleetpolicy.Model[evacuation.Policy] { return &model{} },
	})
}
