package virtualmachine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// checkFenced asks the fenced hosts about a VM that no other host has, before it is created again, in the plan and once
// more in the apply. It returns an error if one of them still runs it: two guests would write to its disks. It warns
// about one that answers, and about the disks that a guest on a host which isn't off would share with the new one.
func (r *Resource) checkFenced(ctx context.Context, m *model) (diags diag.Diagnostics) {
	fenced := r.Data.Fleet.FencedHosts()
	if len(fenced) == 0 || m.Name.IsNull() {
		return nil
	}
	name := text(m.Name)
	answers := r.Data.Fleet.AskFenced(ctx, text(m.ID), name)
	for _, a := range answers {
		if a.Runs {
			diags.AddError("Virtual machine runs on a fenced host: "+name, fmt.Sprintf(
				"hosts.%[1]s has fenced = true, but host %[1]q answers and runs virtual machine %[2]q. Created again, the "+
					"virtual machine would run twice, and two guests could write to one disk.\n\nIf the host is up again, or the "+
					"wrong host was fenced, remove fenced. If it is to be given up, switch it off, then plan again.", a.Host, name))
			return diags
		}
	}
	for _, a := range answers {
		says := "It doesn't run virtual machine %[2]q, which would be created again on another host. If someone, or " +
			"autostart, starts it on this host then, it runs twice."
		if a.Unknown {
			says = "Its libvirt doesn't say whether it runs virtual machine %[2]q, which would be created again on another " +
				"host: then it may run twice, and two guests may write to one disk."
		}
		diags.AddWarning("Fenced host answers: "+a.Host, fmt.Sprintf("hosts.%[1]s has fenced = true, but host %[1]q "+
			"answers. "+says+"\n\nIf the host is up again, remove fenced before anything is applied. If it is to be given "+
			"up, switch it off.", a.Host, name))
	}
	return append(diags, m.warnSharedWith(fenced)...)
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
