package virtualmachine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// deletedInPart is what a killed destroy has left of a VM. ID is the VM's: a VM that replaces it has the same private
// state.
type deletedInPart struct {
	ID string
	fleet.InterruptedDeletion
}

// writeDeletedInPart records what an interrupted destroy has left of the observed VM.
func writeDeletedInPart(ctx context.Context, to meta.PrivateWriter, seen observation) diag.Diagnostics {
	if seen.deletion == nil {
		return meta.WritePrivate(ctx, to, privateDeletedInPart, nil)
	}
	return meta.WritePrivate(ctx, to, privateDeletedInPart, deletedInPart{seen.vm.UUID, *seen.deletion})
}

// replaceDeletedInPart plans a new VM in place of one that an interrupted destroy has deleted in part, and reports
// whether the VM is one. A plan to destroy the VM needs this plan, too: Terraform plans as usual before it.
func (p planning) replaceDeletedInPart(o *outcome) bool {
	left := p.deletedInPart
	if left == nil || left.ID != text(p.state.ID) {
		return false
	}
	p.planNew(&o.planned)
	o.changed, o.replace = true, path.Paths{path.Root("id")}
	o.diags.Append(p.replaceProtected(o.replace)...)
	detail := fmt.Sprintf("A run (%s) began to destroy virtual machine %q on host %q at %s, and was interrupted. What it "+
		"deleted is lost:\n  - %s", left.By, text(p.state.Name), text(p.state.CurrentHost),
		left.Since.UTC().Format(time.RFC3339), strings.Join(left.DeletedDisks(), "\n  - "))
	if len(left.Left) > 0 {
		detail += "\n\nThese disks are still there, and the apply deletes them with their data. To keep the data, copy the " +
			"files first:\n  - " + strings.Join(left.LeftDisks(), "\n  - ")
	}
	detail += "\n\nThe apply completes the destroy, and creates the VM again with new disks if it is still declared. If " +
		"that run still works, plan again when it has ended."
	// Terraform shows only one of several warnings with the same title, so the title has the VM's name.
	o.diags.AddAttributeWarning(path.Root("id"), "Destroy was interrupted: "+text(p.state.Name), detail)
	return true
}
