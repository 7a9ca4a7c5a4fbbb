package meta

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// What to do about a resource whose host doesn't answer: the values of on_unreachable.
const (
	// OnUnreachableError fails the plan.
	OnUnreachableError = "error"
	// OnUnreachableKeep keeps the last known state with a warning, and fails only a change of that very resource.
	OnUnreachableKeep = "keep"
)

// OnUnreachableValues are all values of on_unreachable, the default first.
func OnUnreachableValues() []string { return []string{OnUnreachableError, OnUnreachableKeep} }

// Data is the configured provider.
type Data struct {
	// Fleet is where VMs live. It is nil when Unknown.
	Fleet *fleet.Fleet
	// OnUnreachable is one of OnUnreachableValues.
	OnUnreachable string
	// DefaultDomainType is "kvm", "qemu", or "" for what each host offers best.
	DefaultDomainType string
	// Unknown says that a value of the provider block isn't known before apply, so that no host may be asked: what
	// exists can't be read, and what is new is planned unknown and unchecked.
	Unknown bool
	// UnknownAttributes are the paths of those values, in order.
	UnknownAttributes []string
	// Managed are the VMs that Terraform told of since the provider was configured.
	Managed Managed
	// Planned are the objects that VMs need on their hosts and that were planned since the provider was configured.
	Planned Planned
}

// From takes the data that the framework hands to a resource or data source. Both results are empty while the provider
// isn't configured, as during validation.
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

// UnknownError says why something can't be done while the provider block has unknown values: "Unable to <verb> <noun>".
func (d *Data) UnknownError(verb, noun string) diag.Diagnostic {
	return tfdiag.Failure{
		Verb: verb, Noun: noun,
		Happened: fmt.Sprintf("The provider's configuration depends on values that are not known before apply: %s. "+
			"No host was asked, because it could be the wrong one.", strings.Join(d.UnknownAttributes, ", ")),
		Remedy: "Apply what those values come from first (terraform apply -target=...), or set them to known values.",
	}.Error()
}
