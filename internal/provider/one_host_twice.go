package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// oneHostTwice returns an error if a planned object is on two hosts, or is to be, that are one: without the second
// name, the next plan would remove the object from it. It isn't for objects that are on one host at a time.
func oneHostTwice(
	ctx context.Context, data *meta.Data, req *tfprotov6.PlanResourceChangeRequest,
) *tfprotov6.Diagnostic {
	prior, planned := openObject(req.PriorState), openObject(req.ProposedNewState)
	if _, onMany := planned["host_states"]; !onMany || data == nil || data.Unknown || data.Applies.Load() {
		return nil
	}
	hosts := data.Fleet.Connections()
	switch declared, known := planned.plannedHosts(); {
	case !known:
		return nil
	case declared != nil:
		hosts = hosts.Named(slices.Concat(declared, prior.hosts(req.TypeName))...)
	}
	err := data.HostUUIDs.Distinct(ctx, hosts)
	if err == nil {
		return nil
	}
	noun := strings.ReplaceAll(strings.TrimPrefix(req.TypeName, TypeName+"_"), "_", " ")
	f := tfdiag.Failure{Verb: "plan", Noun: fmt.Sprintf("%s %q", noun, planned.name(req.TypeName)), Err: err}
	d := f.Error()
	return &tfprotov6.Diagnostic{
		Severity: tfprotov6.DiagnosticSeverityError, Summary: d.Summary(), Detail: d.Detail(),
	}
}
