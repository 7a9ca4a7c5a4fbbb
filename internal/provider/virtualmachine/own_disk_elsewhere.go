package virtualmachine

import (
	"cmp"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// warnElsewhere warns about disks that are declared with a pool, and in whose place the VM uses files that neither a
// change of size nor a destroy reaches, and about those that the definition of a VM that is off may have so.
func (p planning) warnElsewhere(existing, declared map[string]object) (diags diag.Diagnostics) {
	name, host := text(p.state.Name), text(p.state.CurrentHost)
	for _, key := range value.Keys(existing) {
		made, now := cmp.Or(p.elsewhere[key], p.unsure[key]), text(existing[key].string("path"))
		if made == "" || now == "" || volumePath(now) == made || text(declared[key].string("pool")) == "" {
			continue
		}
		kind := "file"
		if domain.SourceAt(now).Block != "" {
			kind = "block"
		}
		at := path.Root("disks").AtMapKey(key)
		if p.elsewhere[key] == "" {
			diags.AddAttributeWarning(at, "Disk may have left its volume: "+name, fmt.Sprintf("Disk %q of virtual machine %q "+
				"was created as %s. The definition on host %q has %s in its place, and the next start uses that. Whether it is "+
				"based on the volume, as after a snapshot, is unknown: no active storage pool has the file.\n\nIf the definition "+
				"was edited by mistake, put the volume back with \"virsh edit %[2]s\". Otherwise run \"virsh pool-refresh\" for "+
				"the storage pool of that directory, and plan again.", key, name, made, host, now))
			continue
		}
		diags.AddAttributeWarning(at, "Disk has left its volume: "+name,
			fmt.Sprintf("Disk %q of virtual machine %q was created as %s. On host %q the VM now uses %s, which isn't based on "+
				"that volume, as after \"virsh blockcopy\", \"virsh blockpull\" or a change of the definition. The disk can't "+
				"grow, and a destroy leaves the file that the VM uses.\n\nDeclare the disk as it is: %s = %[5]q in place of pool "+
				"and what belongs to pool. Both files stay. Or, if the definition was edited by mistake, put the volume back with "+
				"\"virsh edit %[2]s\" while the VM is off.", key, name, made, host, now, kind))
	}
	return diags
}
