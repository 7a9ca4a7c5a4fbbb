package meta

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// What to do about a resource whose host is unreachable: the values of on_unreachable.
const (
	// OnUnreachableError makes the plan fail.
	OnUnreachableError = "error"
	// OnUnreachableKeep keeps the last known state with a warning. Only a change of that resource fails.
	OnUnreachableKeep = "keep"
)

// OnUnreachableValues returns all values of on_unreachable, the default first.
func OnUnreachableValues() []string { return []string{OnUnreachableError, OnUnreachableKeep} }

// Data is the configured provider.
type Data struct {
	// Fleet is the fleet. It is nil if Unknown is set.
	Fleet *fleet.Fleet
	// OnUnreachable is one of OnUnreachableValues.
	OnUnreachable string
	// DefaultDomainType is "kvm", "qemu", or "" for the best type that each host offers.
	DefaultDomainType string
	// Unknown says that a value of the provider block is known only after apply, so no host may be asked. Existing
	// objects can't be read, and new ones are planned with unknown values and without checks.
	Unknown bool
	// UnknownAttributes are the paths of the unknown values, in order.
	UnknownAttributes []string
	// Managed are the VMs that Terraform has sent since the provider was configured.
	Managed Managed
	// Volumes are the volumes that Terraform has sent since the provider was configured.
	Volumes Volumes
	// Written are the objects on hosts that resources have written since the provider was configured.
	Written Written
	// Planned are the planned objects that VMs need on their hosts, since the provider was configured.
	Planned Planned
	// Drains are the planned drains of hosts.
	Drains Drains
	// Sightings are the objects that the plan has named.
	Sightings Sightings
	// Reservations are the DHCP reservations that resources had, replaced or added since the provider was configured.
	Reservations Reservations
	// Saved are the objects that resources had, since the provider was configured: those with a host_states, and the
	// copies of images.
	Saved Saved
	// HostUUIDs tell whether two hosts are one.
	HostUUIDs hostset.Known
	// Refreshed says that Terraform has had a resource read since the provider was configured. It does that for a plan
	// only, and not when it plans a change again while it carries out a plan. An error there would leave what
	// create_before_destroy replaces as a deposed object, which Terraform restores if the change itself fails. A plan with
	// an empty state or with -refresh=false reads nothing either, and others may plan a resource before they read one.
	Refreshed atomic.Bool
	// Applies says that Terraform carries out a plan: it has sent a change since the provider was configured. It plans
	// every change again then, and may do nothing that the plan didn't show.
	Applies atomic.Bool
}

// From converts the data that the framework passes to a resource or data source. Both results are empty while the
// provider isn't configured, as during validation.
func From(providerData any) (*Data, diag.Diagnostics) {
	if providerData == nil {
		return nil, nil
	}
	d, ok := providerData.(*Data)
	if !ok {
		return nil, diag.Diagnostics{tfdiag.UnexpectedProviderData(providerData)}
	}
	return d, nil
}

// Storage returns the storage of the fleet's hosts. The provider must be configured and known.
func (d *Data) Storage() *storage.Storage { return d.Fleet.Storage() }

// UnknownError returns the error that an operation needs values of the provider block that are still unknown: "Unable
// to <verb> <noun>".
func (d *Data) UnknownError(verb, noun string) diag.Diagnostic {
	return tfdiag.Failure{
		Verb: verb, Noun: noun,
		Happened: fmt.Sprintf("The provider's configuration depends on values that are not known before apply: %s. "+
			"No host was asked, because it could be the wrong one.", strings.Join(d.UnknownAttributes, ", ")),
		Remedy: "Apply what those values come from first (terraform apply -target=...), or set them to known values.",
	}.Error()
}
