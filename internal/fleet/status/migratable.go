package status

import (
	"fmt"
	"strings"
)

// liveMigratable returns the condition with the first blocker's reason, and all blockers in its message.
func liveMigratable(f Facts) Condition {
	switch {
	case !f.Active:
		return Condition{Status: False, Reason: ReasonGuestNotRunning, Message: f.shortStateText(), Layer: LayerLibvirt}
	case f.PostCopy() != PostCopyIntact:
		return Condition{
			Status: False, Reason: ReasonPostcopyFailed, Message: f.postCopyText(), Layer: LayerFleet,
		}
	case f.Migrating:
		return Condition{
			Status: True, Reason: ReasonMigrating, Message: "it is being moved now", Since: f.MigratingSince,
			Layer: LayerLibvirt,
		}
	case f.Blockers.Value == nil:
		return unobserved(f.Blockers.Why, LayerLibvirt)
	}
	c := Condition{Status: True, Reason: "Migratable", Layer: LayerLibvirt}
	var messages []string
	for _, b := range *f.Blockers.Value {
		messages = append(messages, b.Message)
		// What blocks for certain takes precedence over what may block.
		if c.Status == True || c.Status == Unknown && b.Status == False {
			c.Status, c.Reason = b.Status, b.Reason
		}
	}
	c.Message = strings.Join(messages, "; ")
	return c
}

// storageLiveMigratable returns the condition with KubeVirt's only reason, and lists every blocker.
func storageLiveMigratable(f Facts) Condition {
	switch {
	case !f.Active:
		return Condition{Status: False, Reason: ReasonGuestNotRunning, Message: f.shortStateText(), Layer: LayerLibvirt}
	case f.PostCopy() != PostCopyIntact:
		return Condition{
			Status: False, Reason: ReasonNotMigratable, Layer: LayerFleet,
			Message: ReasonPostcopyFailed + ": " + f.postCopyText(),
		}
	case f.Migrating:
		return unobserved("it is being moved now", LayerLibvirt)
	case f.StorageBlockers.Value == nil:
		return unobserved(f.StorageBlockers.Why, LayerLibvirt)
	}
	c := Condition{Status: True, Reason: "Migratable", Layer: LayerLibvirt}
	var messages []string
	for _, b := range *f.StorageBlockers.Value {
		messages = append(messages, b.Reason+": "+b.Message)
		if c.Status != False {
			c.Status, c.Reason = b.Status, ReasonNotMigratable
		}
	}
	c.Message = strings.Join(messages, "; ")
	return c
}

// migrationRequired reports whether the VM runs on another host than its configuration pins it to.
func migrationRequired(f Facts) Condition {
	c := Condition{Status: False, Reason: "WhereItBelongs", Layer: LayerMetadata}
	switch {
	case f.PinnedTo == "":
		c.Reason, c.Message = "NotPinned", "no host attribute pins it to a host"
	case f.PinnedTo != f.Host:
		c.Status, c.Reason = True, "PinnedToOtherHost"
		c.Message = fmt.Sprintf("its host attribute wants it on host %q, and it is on host %q", f.PinnedTo, f.Host)
	}
	return c
}

func evictionRequested(f Facts) Condition {
	if f.EvictedFrom == "" {
		return Condition{Status: False, Reason: "NotRequested", Layer: LayerMetadata}
	}
	c := Condition{
		Status: True, Reason: EvictionRequested, Since: f.EvictedSince, Layer: LayerMetadata,
		Message: fmt.Sprintf("it was asked to leave host %q", f.EvictedFrom),
	}
	if f.EvictedBy != "" {
		c.Message += " by " + f.EvictedBy
	}
	return c
}
