package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// warnElsewhere warns about disks that are declared with a pool, and in whose place the VM uses files that neither a
// change of size nor a destroy reaches.
func (p planning) warnElsewhere(existing, declared map[string]object) (diags diag.Diagnostics) {
	for _, key := range value.Keys(existing) {
		made, now := p.elsewhere[key], text(existing[key].string("path"))
		if made == "" || now == "" || now == made || text(declared[key].string("pool")) == "" {
			continue
		}
		kind := "file"
		if volumeSource(now).Block != "" {
			kind = "block"
		}
		diags.AddAttributeWarning(path.Root("disks").AtMapKey(key), "Disk has left its volume: "+text(p.state.Name),
			fmt.Sprintf("Disk %q of virtual machine %q was created as %s. On host %q the VM now uses %s, which isn't based on "+
				"that volume, as after \"virsh blockcopy\" or \"virsh blockpull\". The disk can't grow, and a destroy leaves the "+
				"file that the VM uses.\n\nDeclare the disk as it is: %s = %[5]q in place of pool and what belongs to pool. Both "+
				"files stay.", key, text(p.state.Name), made, text(p.state.CurrentHost), now, kind))
	}
	return diags
}
