package virtualmachine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// refuseFenced returns an error if a fenced host answers and runs the VM, which is to be created or started elsewhere:
// two guests would write to its disks. A plan asks, and its apply asks once more: the host may be up again since. A VM
// that isn't in the state is known by its name.
func (r *Resource) refuseFenced(ctx context.Context, m *model) (answers []fleet.FencedAnswer, diags diag.Diagnostics) {
	if r.Data.Unknown || len(r.Data.Fleet.FencedHosts()) == 0 || m.Name.IsNull() || m.Name.IsUnknown() {
		return nil, nil
	}
	name := text(m.Name)
	answers = r.Data.Fleet.AskFenced(ctx, text(m.ID), name)
	for _, a := range answers {
		if a.Runs {
			diags.AddError("Virtual machine runs on a fenced host: "+name, fmt.Sprintf(
				"hosts.%[1]s has fenced = true, but host %[1]q answers and runs virtual machine %[2]q. Created or started on "+
					"another host, the virtual machine would run twice, and two guests could write to one disk.\n\nIf the host "+
					"is up again, or the wrong host was fenced, remove fenced. If it is to be given up, switch it off, then plan "+
					"again.", a.Host, name))
			break
		}
	}
	return answers, diags
}

// checkFenced asks the fenced hosts about a VM before a plan creates it again or starts it. It returns the error of
// refuseFenced, or warnings about the hosts that answer.
func (r *Resource) checkFenced(ctx context.Context, m *model) diag.Diagnostics {
	answers, diags := r.refuseFenced(ctx, m)
	if diags.HasError() {
		return diags
	}
	name := text(m.Name)
	for _, a := range answers {
		says := "It doesn't run virtual machine %[2]q, which would be started on another host. If someone, or autostart, " +
			"starts it on this host then, it runs twice. What else runs there may write to the same disks."
		if a.Unknown {
			says = "Its libvirt doesn't say whether it runs virtual machine %[2]q, which would be started on another host: " +
				"then it may run twice, and two guests may write to one disk."
		}
		diags.AddWarning("Fenced host answers: "+a.Host, fmt.Sprintf("hosts.%[1]s has fenced = true, but host %[1]q "+
			"answers. "+says+"\n\nIf the host is up again, remove fenced before anything is applied. If it is to be given "+
			"up, switch it off.", a.Host, name))
	}
	return diags
}

// warnSharedWith warns about the disks on network storage of a VM whose last host is fenced: whoever reaches them can
// write to them.
func (m *model) warnSharedWith(fenced []string) diag.Diagnostics {
	host, disks := text(m.CurrentHost), openAll(m.Disks)
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(disks)) {
		if isSet(disks[key].object("network")) && !disks[key].bool("read_only").ValueBool() {
			fmt.Fprintf(&lines, "\n  - %s", key)
		}
	}
	if lines.Len() == 0 || !slices.Contains(fenced, host) {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("disks"),
		"Virtual machine is gone with its host: "+text(m.Name), fmt.Sprintf("Host %q, which had virtual machine %q last, is "+
			"fenced. The virtual machine is created again with the same disks on network storage:%s\n\nMake sure that the "+
			"host is off before you apply. If the guest still runs there, both write to these disks.", host, text(m.Name),
			lines.String()))}
}
