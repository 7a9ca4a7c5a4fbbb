package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// warnAboutBoot says which of several disks a new VM boots from when nobody chose: the first by name, which need
// not be the one that was meant.
func (p planning) warnAboutBoot() diag.Diagnostics {
	if kernel := open(p.config.Kernel).string("path"); text(kernel) != "" || kernel.IsUnknown() {
		return nil
	}
	var bootable []string
	disks := elements(p.config.Disks)
	for _, key := range value.Keys(disks) {
		disk := open(disks[key])
		if disk == nil || !disk.int("boot_order").IsNull() {
			return nil
		}
		if device := disk.string("device"); device.IsNull() || text(device) == "disk" {
			bootable = append(bootable, key)
		}
	}
	if len(bootable) < 2 {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("disks"), "Boot disk is not chosen", fmt.Sprintf(
		"Virtual machine %q has %d disks and none has a boot_order, so it boots from disk %q, the first by name.\n\n"+
			"Set boot_order = 1 on the disk that it is to boot from.", text(p.config.Name), len(bootable), bootable[0]))}
}
