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

// Words for what is on a host.
const (
	// Active is an object that is there and works: a pool or network that is started.
	Active = "active"
	// Inactive is one that is defined there, and not started.
	Inactive = "inactive"
	// Present is an object that has no power state.
	Present = "present"
	// Missing is one that the host answered it hasn't.
	Missing = "missing"
)

// HostsAttribute is the attribute hosts. Noun is what the resource is called: "pool".
func HostsAttribute(noun string) schema.Attribute {
	return schema.SetAttribute{
		MarkdownDescription: "Hosts that the " + noun + " is on: keys of the provider's `hosts`. A host that you add " +
			"gets the " + noun + ", and from a host that you remove from this set, the " + noun + " is removed. If you " +
			"remove a host from the provider's `hosts`, the " + noun + " stays there. Default: every configured host.",
		ElementType: types.StringType,
		Optional:    true,
		Validators:  []validator.Set{setvalidator.SizeAtLeast(1)},
	}
}

// StatesAttribute is the attribute host_states. Words say what its values mean.
func StatesAttribute(noun, words string) schema.Attribute {
	return schema.MapAttribute{
		MarkdownDescription: "State of the " + noun + " on each host, by the host's name: " + words + ". The next " +
			"apply repairs what differs.",
		ElementType: types.StringType,
		Computed:    true,
	}
}
