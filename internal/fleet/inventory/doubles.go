package inventory

import (
	"cmp"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Doubles returns the other VMs that run under the name of a running VM and write to a disk of it: one of the two was
// created while the host of the other was away. It asks no host.
func (vm *VM) Doubles(answers []Reply) []status.Double {
	if !vm.Active {
		return nil
	}

	var doubles []status.Double

	for _, a := range answers {
		if a.View == nil || a.Err != nil {
			continue
		}

		// Names are few: the index of the view, which reads all definitions, isn't needed.
		for uuid, e := range a.View.Domains {
			if e.Name != vm.Name || uuid == vm.UUID || !e.Active() {
				continue
			}

			for _, disk := range vm.Entry.DiskUses() {
				if _, shared := disk.SharedWith(e.DiskUses(), a.Host == vm.On); shared {
					doubles = append(doubles, status.Double{UUID: uuid, Host: a.Host.Name, Disk: disk.Key})

					break
				}
			}
		}
	}

	slices.SortFunc(doubles, func(a, b status.Double) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.UUID, b.UUID))
	})

	return doubles
}
