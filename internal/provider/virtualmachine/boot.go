package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// warnAboutBoot warns if a new VM has several disks and the configuration doesn't choose the boot disk. The VM boots
// from the first disk by name, which may not be the intended one.
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

// planBootOrders plans no boot order for a device if another device is declared to get the same boot order.
func planBootOrders(planned, config *model) {
	taken, unknown := map[int64]bool{}, config.Disks.IsUnknown() || config.Interfaces.IsUnknown()
	disks, interfaces := declaredBootOrders(config.Disks), declaredBootOrders(config.Interfaces)
	for _, orders := range []map[string]types.Int64{disks, interfaces} {
		for _, order := range orders {
			unknown = unknown || order.IsUnknown()
			if isSet(order) {
				taken[order.ValueInt64()] = true
			}
		}
	}
	if len(taken) == 0 && !unknown {
		return
	}
	planned.Disks = withoutTaken(disks, planned.Disks, diskType, taken, unknown)
	planned.Interfaces = withoutTaken(interfaces, planned.Interfaces, interfaceType, taken, unknown)
}

// declaredBootOrders returns what each device declares. That of an unknown device is unknown.
func declaredBootOrders(devices types.Map) map[string]types.Int64 {
	orders := map[string]types.Int64{}
	for key, device := range elements(devices) {
		orders[key] = open(device).int("boot_order")
		if device.IsUnknown() {
			orders[key] = types.Int64Unknown()
		}
	}
	return orders
}

// withoutTaken removes the planned boot order of a device if the configuration declares the same boot order for another
// device. unknown says that unknown values may declare more of them.
func withoutTaken(
	declared map[string]types.Int64, planned types.Map, t types.ObjectType, taken map[int64]bool, unknown bool,
) types.Map {
	return editDevices(planned, t, func(key string, a object) bool {
		own, listed := declared[key]
		order := a.int("boot_order")
		if !listed || !own.IsNull() || !isSet(order) || order.ValueInt64() == 0 {
			return false
		}
		switch {
		case taken[order.ValueInt64()]:
			a["boot_order"] = types.Int64Null()
		case unknown:
			a["boot_order"] = types.Int64Unknown()
		default:
			return false
		}
		return true
	})
}
