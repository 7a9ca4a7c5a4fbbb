package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A disk isn't taken for removed while the filesystem of its pool isn't mounted: an update and a destroy name the disk
// that they leave, and say what to do. A disk that a user has removed from a pool with other volumes is gone without a
// word.
func TestLab_ownDisksOfAnUnmountedPool(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1")
	pool := lab.Name(t)
	diskPool(t, l, "kvm1", pool, dir)

	d := owner(t, l, "Halted", pool, pool, pool)
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
	has := func(want []string) {
		t.Helper()

		if now := filesOn(t, l, "kvm1", dir); !slices.Equal(now, want) {
			t.Errorf("there are %q; want %q", now, want)
		}
	}
	at := dir + "/" + pool
	hide := func() { l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at) }
	show := func() { l.Run(t, "kvm1", "umount", at) }

	for _, key := range []string{"disk0", "disk1", "disk2"} { // As Terraform knows them.
		d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: own[key].Path}}
		d.OwnDisks[key] = own[key]
	}

	// The directory is empty, as it is if its filesystem isn't mounted.
	hide()
	declare("disk0", "disk1")
	d.Removes = []string{"disk2"}

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil {
		t.Fatal(err)
	}

	says(now.KeptDisks, "disk2")
	show()
	has(all)

	l.Virsh(t, "kvm1", "pool-refresh", pool)
	l.Virsh(t, "kvm1", "vol-delete", "--pool", pool, own["disk1"].Volume)
	declare("disk0")
	d.Removes = []string{"disk1"}

	if now, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d); err != nil {
		t.Fatal(err)
	}

	says(now.KeptDisks)
	hide()

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if err != nil {
		t.Fatal(err)
	}

	says(report.KeptDisks, "disk0")
	show()
	has(slices.DeleteFunc(all, func(file string) bool { return file == own["disk1"].Path }))

	if _, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm)); !inventory.IsNotFound(err) {
		t.Errorf("finding it: %v", err)
	}
}
