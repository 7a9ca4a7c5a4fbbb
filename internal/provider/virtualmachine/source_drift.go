package virtualmachine

import (
	"maps"
	"path"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// sourceDrifts returns the disks whose guest now uses another image than the configured one.
func (p planning) sourceDrifts(have, want domain.Spec) []domain.SourceDrift {
	return domain.SourceDrifts(have, p.live, p.withAppliedVolumes(want), p.applied, p.recorded)
}

// withAppliedVolumes returns the definition with the sources of volumes that only the apply looks up, because the guest
// uses something else now. A volume that has the same name as the one that was applied last is taken for it.
func (p planning) withAppliedVolumes(want domain.Spec) domain.Spec {
	declared := elements(p.config.Disks)
	disks := maps.Clone(want.Disks)
	for key, disk := range want.Disks {
		if disk.Source.File != domain.UnknownFile {
			continue
		}
		volume := text(open(declared[key]).string("volume"))
		if !isVolumeID(volume) {
			continue
		}
		applied := p.applied[key]
		for _, was := range []string{p.recorded[key], applied.File + applied.Block + applied.RBDPath()} {
			source := domain.SourceAt(was)
			if name := source.Name(); name != "" && path.Base(volume) == path.Base(name) {
				disk.Source = source
				disks[key] = disk
			}
		}
	}
	want.Disks = disks
	return want
}

// withRunningDisks returns the definition with the sources of disks that the definition on the host has lost, and that
// the running VM still has as they were applied: a user has detached them for the next start alone. They come back as
// what they are.
func (p planning) withRunningDisks(want domain.Spec) domain.Spec {
	if p.live == nil {
		return want
	}
	applied, declared, defined := p.withAppliedVolumes(want), elements(p.config.Disks), elements(p.state.Disks)
	disks := maps.Clone(want.Disks)
	for key, disk := range want.Disks {
		live, runs := p.live.Disks[key]
		if _, known := defined[key]; known || !runs || disk.Source.File != domain.UnknownFile {
			continue
		}
		source := applied.Disks[key].Source
		if text(open(declared[key]).string("pool")) != "" {
			source = p.applied[key]
		}
		if domain.SameDisk(source, live.Source, true) {
			disk.Source = live.Source
			disks[key] = disk
		}
	}
	want.Disks = disks
	return want
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
