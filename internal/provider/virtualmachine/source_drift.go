package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// sourceDrifts returns the disks whose guest now uses another image than the configured one.
func (p planning) sourceDrifts(have, want domain.Spec) []domain.SourceDrift {
	return domain.SourceDrifts(have, p.live, want, p.applied)
}

// sourcesKept returns an error if a disk would be switched back to an image that its guest no longer uses, whatever the
// update policy. The guest would lose what it wrote since, and the image would change under its overlay.
func (p planning) sourcesKept(drifts []domain.SourceDrift) diag.Diagnostics {
	problems := make([]fleet.Problem, len(drifts))
	for i, drift := range drifts {
		problems[i] = fleet.Problem{Attribute: "disks." + drift.Key, Summary: "Disk was switched to another image"}
		problems[i].Detail, problems[i].Remedy = drift.Explain(text(p.state.Name))
		problems[i].Remedy += " " + tfdiag.DestroyAnyway
	}
	return tfdiag.Problems(problems, keyed...)
}
