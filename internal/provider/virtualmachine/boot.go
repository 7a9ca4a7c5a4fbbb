package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// warnAboutBoot warns if a new VM has several disks and the configuration doesn't choose the boot disk. The VM boots
// from the first disk by name, which may not be the intended one. If a disk has an image, disks that are created empty
// come after the others.
func (p planning) warnAboutBoot() diag.Diagnostics {
	if kernel := open(p.config.Kernel).string("path"); text(kernel) != "" || kernel.IsUnknown() {
		return nil
	}
	var all, bootable, empty []string
	images := false
	disks := elements(p.config.Disks)
	for _, key := range value.Keys(disks) {
		disk := open(disks[key])
		if disk == nil || !disk.int("boot_order").IsNull() {
			return nil
		}
		if device := disk.string("device"); !device.IsNull() && text(device) != "disk" {
			continue
		}
		all = append(all, key)
		if images = images || !disk.string("image").IsNull(); disk.string("pool").IsNull() || !disk.string("image").IsNull() {
			bootable = append(bootable, key)
		} else {
			empty = append(empty, key)
		}
	}
	if !images {
		bootable, empty = all, nil
	}
	if len(bootable) < 2 {
		return nil // There is one disk, or all others are empty.
	}
	first := "the first by name"
	if len(empty) > 0 {
		first += " of those that aren't created empty"
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("disks"), "Boot disk is not chosen", fmt.Sprintf(
		"There are %d disks and none has a boot_order, so the virtual machine boots from disk %q, %s.\n\n"+
			"Set boot_order = 1 on the disk that it is to boot from.", len(all), bootable[0], first))}
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
