package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// A volume that a move left stays recorded while its pool isn't mounted, or isn't there: whoever reads the VM finds it,
// each update names it and says why it stays, and the first one that sees it removes it.
func TestLab_leftVolumeOfAnUnseenPool(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1", "kvm2")
	d := owner(t, l, "Halted", pool)
	vm := create(t, f, l, d)
	o := vm.Metadata.OwnDisks["disk0"]
	d.Spec.Disks["disk0"] = domain.Disk{Source: domain.DiskSource{File: o.Path}} // as Terraform knows it
	at := dir + "/" + pool

	for _, tt := range []struct {
		name, from, to string
		hide, show     func()
		says           string
	}{
		{
			"unmounted", "kvm1", "kvm2",
			func() { l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at) },
			func() { l.Run(t, "kvm1", "umount", at) },
			"isn't mounted",
		},
		{
			"undefined", "kvm2", "kvm1",
			func() {
				l.Virsh(t, "kvm2", "pool-destroy", pool)
				l.Virsh(t, "kvm2", "pool-undefine", pool)
			},
			func() {
				l.Virsh(t, "kvm2", "pool-define-as", pool, "dir", "--target", at)
				l.Virsh(t, "kvm2", "pool-start", pool)
			},
			"no storage pool",
		},
	} {
		said := func(kept, left []string) {
			t.Helper()

			if len(kept) != 1 || !strings.Contains(kept[0], o.Path) || !strings.Contains(kept[0], tt.says) || len(left) != 0 {
				t.Errorf("%s: kept are %q, left %q; want one that %s", tt.name, kept, left, tt.says)
			}
		}
		recorded := func(want ...string) {
			t.Helper()

			now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
			if err != nil || !slices.Equal(now.LeftVolumes(), want) {
				t.Errorf("%s: left are %q, %v; want %q", tt.name, now.LeftVolumes(), err, want)
			}
		}
		left := tt.from + ": " + pool + "/" + o.Volume

		listen(f, &onLog{Message: "removing a volume that is left", Do: tt.hide})

		now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), tt.to, migration.Options{})
		if err != nil || now.Host != tt.to {
			t.Fatalf("%s: %+v, %v", tt.name, now, err)
		}

		said(now.KeptDisks, now.LeftVolumes())
		recorded(left)

		d.Metadata.Host = tt.to

		for range 2 {
			now, err := f.Update(t.Context(), vm.UUID, lastOf(now), d)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}

			said(now.KeptDisks, now.LeftVolumes())
			recorded(left)
		}

		tt.show()

		if vm, err = f.Update(t.Context(), vm.UUID, lastOf(now), d); err != nil || len(vm.KeptDisks) != 0 {
			t.Fatalf("%s, when it is back: %+v, %v", tt.name, vm, err)
		}

		recorded()
		hasOnly(t, l, tt.from, dir)
		hasOnly(t, l, tt.to, dir, o.Path)
	}

	// A user removed the file with its pool: there is nothing left to do, and nothing is said.
	f = labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) {
		hc.Exist = func(ctx context.Context, paths ...string) (map[string]bool, error) {
			exist := map[string]bool{}

			for _, p := range paths {
				_, err := l.Host(name).Run(ctx, "test", "-e", p)
				exist[p] = err == nil
			}

			return exist, nil
		}
	})

	listen(f, &onLog{Message: "removing a volume that is left", Do: func() {
		dropPool(t, l, "kvm1", pool)
		l.Run(t, "kvm1", "rm", o.Path)
	}})

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || len(now.KeptDisks) != 0 || len(now.Metadata.LeftVolumes) != 0 {
		t.Errorf("its file was removed: kept are %q, left %+v, %v", now.KeptDisks, now.Metadata.LeftVolumes, err)
	}
}
