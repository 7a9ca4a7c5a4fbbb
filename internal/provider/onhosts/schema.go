package onhosts

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Names of the attributes.
const (
	HostsName  = "hosts"
	StatesName = "host_states"
)

// Words for what a host has.
const (
	// Active is an object that works: a started pool or network.
	Active = "active"
	// Inactive is an object that is defined and not started.
	Inactive = "inactive"
	// Present is an object that has no power state.
	Present = "present"
	// Missing is an object that the host doesn't have, by its own answer.
	Missing = "missing"
)

// HostsAttribute returns the attribute hosts. noun is the name of the resource: "pool".
func HostsAttribute(noun string) schema.Attribute {
	return schema.SetAttribute{
		MarkdownDescription: "Hosts that the " + noun + " is on: keys of the provider's `hosts`. Removing a host here " +
			"removes the " + noun + " from it; removing it from the provider's `hosts` doesn't. Default: every configured " +
			"host.",
		ElementType: types.StringType,
		Optional:    true,
		Validators:  []validator.Set{setvalidator.SizeAtLeast(1)},
	}
}

// StatesAttribute returns the attribute host_states. words describe its values.
func StatesAttribute(noun, words string) schema.Attribute {
	return schema.MapAttribute{
		MarkdownDescription: "State of the " + noun + " on each host, by the host's name: " + words + ". The next " +
			"apply repairs what differs.",
		ElementType: types.StringType,
		Computed:    true,
	}
}
