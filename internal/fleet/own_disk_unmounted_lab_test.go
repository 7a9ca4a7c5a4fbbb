package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// A disk isn't taken for removed while the filesystem of its pool isn't mounted: an update and a destroy name the disk
// that they leave, and say what to do. The disk stays recorded: the next update that sees it deletes it, and a destroy
// names it. A disk that a user has removed from a pool with other volumes is gone without a word.
func TestLab_ownDisksOfAnUnmountedPool(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1")

	d := owner(t, l, "Halted", pool, pool, pool, pool)
	vm := create(t, f, l, d)
	own := vm.Metadata.OwnDisks
	all := filesOn(t, l, "kvm1", dir)
	declare := func(keys ...string) {
		for key := range d.Spec.Disks {
			if !slices.Contains(keys, key) {
				delete(d.Spec.Disks, key)
				delete(d.OwnDisks, key)
			}
		}
	}
	says := func(kept []string, keys ...string) {
		t.Helper()

		if len(kept) != len(keys) {
			t.Fatalf("kept are %q; want %q", kept, keys)
		}

		for i, key := range keys {
			for _, part := range []string{
				fmt.Sprintf("disk %q", key), own[key].Path, "isn't mounted", "virsh vol-delete --pool " + pool,
			} {
				if !strings.Contains(kept[i], part) {
					t.Errorf("it is said that %s; want %q", kept[i], part)
				}
			}
		}
	}
	at := dir + "/" + pool
	hide := func() { l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at) }
	show := func() { l.Run(t, "kvm1", "umount", at) }

	for _, key := range []string{"disk0", "disk1", "disk2", "disk3"} { // As Terraform knows them.
		d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: own[key].Path}}
		d.OwnDisks[key] = own[key]
	}

	update := func(removes string, stays ...string) {
		t.Helper()

		d.Removes = []string{removes}

		now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
		if err != nil {
			t.Fatal(err)
		}

		says(now.KeptDisks, stays...)
	}
	without := func(keys ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(file string) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return file == own[key].Path })
		})
	}

	// The directory is empty, as it is if its filesystem isn't mounted.
	hide()
	declare("disk0", "disk1", "disk3")
	update("disk2", "disk2")
	update("disk2", "disk2")
	show()
	hasOnly(t, l, "kvm1", dir, all...)

	l.Virsh(t, "kvm1", "pool-refresh", pool)
	l.Virsh(t, "kvm1", "vol-delete", "--pool", pool, own["disk1"].Volume)
	declare("disk0", "disk3")
	update("disk1")
	hasOnly(t, l, "kvm1", dir, without("disk1", "disk2")...)

	hide()
	declare("disk0")
	update("disk3", "disk3")

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if err != nil {
		t.Fatal(err)
	}

	says(report.KeptDisks, "disk0", "disk3")
	show()
	hasOnly(t, l, "kvm1", dir, without("disk1", "disk2")...)

	if _, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm)); !inventory.IsNotFound(err) {
		t.Errorf("finding it: %v", err)
	}
}
