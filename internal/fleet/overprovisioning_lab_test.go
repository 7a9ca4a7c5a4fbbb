package fleet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// poolCapacity is the size of a host's pool in bytes, as virsh shows it.
func poolCapacity(t *testing.T, l *lab.Lab, host, pool string) uint64 {
	t.Helper()

	for _, line := range strings.Split(l.Virsh(t, host, "pool-info", "--bytes", pool), "\n") {
		if number, ok := strings.CutPrefix(line, "Capacity:"); ok {
			bytes, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
			if err != nil {
				t.Fatal(err)
			}

			return bytes
		}
	}

	t.Fatalf("host %s doesn't say how large pool %s is", host, pool)

	return 0
}

// What the disks in a pool may grow to is limited wherever disks come from: VMs that are created one by one, in two
// runs at once, or grown, volumes, and VMs that move there. The plan says so before, with the pool, its host and the
// numbers.
func TestLab_overprovisioning(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	limited := func(name string, hc *inventory.HostConfig) {
		hc.StorageOverprovisioningFactor, hc.Unschedulable = 1.5, name == "kvm3"
	}
	f, other := labFleet(t, l, "first run", limited), labFleet(t, l, "second run", limited)
	pool := lab.Name(t)
	dir := directory(t, l, "kvm1", "kvm2")

	for _, host := range []string{"kvm1", "kvm2"} {
		diskPool(t, l, host, pool, dir)
	}

	whole := poolCapacity(t, l, "kvm1", pool)
	wish := func(name, host string, share float64) placement.Desired {
		d := owner(t, l, "Halted", pool)
		d.Spec.Name, d.Metadata.Host = pool+"-"+name, host
		d.OwnDisks["disk0"] = domain.OwnDisk{Pool: pool, Bytes: uint64(share*float64(whole)) >> 20 << 20}

		return d
	}
	refuses := func(what string, problems []inventory.Problem, err error, host string) {
		t.Helper()

		said := fmt.Sprint(problems)
		for _, want := range []string{
			strconv.Quote(pool), strconv.Quote(host), "storage_overprovisioning_factor = 1.5", domain.FormatSize(whole),
		} {
			if err != nil || !strings.Contains(said, want) {
				t.Errorf("%s: %s, %v; want %q in it", what, said, err, want)
			}
		}
	}

	// Two of 0.8 are more than 1.5: of two that come at once, in two runs, each gets a host of its own, and no other one.
	made := atOnce(t, l, []*Fleet{f, other}, wish("a", "", 0.8), wish("b", "", 0.8), wish("c", "", 0.8))
	if made["kvm1"] != 1 || made["kvm2"] != 1 || made[""] != 1 {
		t.Errorf("the VMs are on %v; want one on each host", made)
	}

	problems, err := f.CheckCreate(t.Context(), wish("d", "kvm1", 0.8))
	refuses("planning another", problems, err, "kvm1")

	if problems, err := f.CheckCreate(t.Context(), wish("d", "kvm1", 0.5)); err != nil || len(problems) > 0 {
		t.Errorf("planning one that fits: %v, %v", problems, err)
	}

	vm := create(t, f, l, wish("d", "kvm1", 0.5))

	// A VM that replaces it has its room, on its host.
	replacement := func(host string, share float64) placement.Desired {
		d := wish("d", host, share)
		d.Replaces = vm.UUID

		return d
	}

	if problems, err := f.CheckCreate(t.Context(), replacement("kvm1", 0.7)); err != nil || len(problems) > 0 {
		t.Errorf("planning one in its place: %v, %v", problems, err)
	}

	problems, err = f.CheckCreate(t.Context(), replacement("kvm2", 0.8))
	refuses("planning one in its place, on another host", problems, err, "kvm2")

	// Growth counts as what is added.
	grown := wish("d", "kvm1", 0.75)
	grown.Spec.Disks["disk0"] = vm.PersistentSpec.Disks["disk0"]
	problems, err = f.CheckUpdate(t.Context(), vm.UUID, lastOf(vm), grown)
	refuses("planning to grow it", problems, err, "kvm1")

	if _, err := f.Update(t.Context(), vm.UUID, lastOf(vm), grown); !errors.Is(err, storage.ErrOvercommitted) {
		t.Errorf("growing it: %v", err)
	}

	// A move brings all that the disk may grow to.
	larger := create(t, f, l, wish("e", "kvm2", 0.6))
	problems, err = f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: "kvm2"}, nil)
	refuses("planning to move it", problems, err, "kvm2")

	if _, err := f.Delete(t.Context(), larger.UUID, lastOf(larger), 0); err != nil {
		t.Fatal(err)
	}

	problems, err = f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: "kvm2"}, nil)
	if err != nil || strings.Contains(fmt.Sprint(problems), "storage_overprovisioning_factor") {
		t.Errorf("planning to move it when there is room: %v, %v", problems, err)
	}

	// Another run, on a host that shares the directory, makes a volume while the disk is on its way: both don't fit. The
	// disk of a VM that runs is on its way once the target has its empty image.
	moves := func(how string) {
		t.Helper()
		f.ForgetAll()
		listen(f, &onLog{Message: how, Do: func() {
			l.Run(t, "kvm2", "truncate", "--size", fmt.Sprint(whole), dir+"/"+pool+"/meanwhile")
		}})

		_, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
		if !errors.Is(err, migration.ErrBlocked) || !strings.Contains(err.Error(), "storage_overprovisioning_factor = 1.5") {
			t.Errorf("%s while a volume is made: %v", how, err)
		}

		onlyOn(t, f, vm.UUID, "kvm1")
		l.Virsh(t, "kvm2", "vol-delete", "--pool", pool, "meanwhile")

		if said := l.Virsh(t, "kvm2", "vol-list", pool); strings.Contains(said, vm.Metadata.OwnDisks["disk0"].Volume) {
			t.Errorf("%s: its disk was left:\n%s", how, said)
		}
	}
	moves("moving definition")
	l.Virsh(t, "kvm1", "start", vm.UUID)
	moves("disks are copied")
	l.Virsh(t, "kvm1", "destroy", vm.UUID)
	f.ForgetAll()

	// Of two volumes that fit alone, made at once in two runs, one is made.
	var (
		wg   sync.WaitGroup
		errs [2]error
	)

	for i, run := range []*Fleet{f, other} {
		wg.Go(func() {
			_, errs[i] = run.Storage().CreateVolume(t.Context(), "kvm2", storage.Disk{
				Pool: pool, Name: fmt.Sprint("volume", i), Bytes: whole / 2,
			})
		})
	}

	fleettest.AwaitAll(t, &wg)

	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), storage.ErrOvercommitted) {
		t.Errorf("two volumes: %v", errs)
	}

	// A thick disk takes its space when it is made, and counts with all of it: two that fit alone don't.
	thick := owner(t, l, "Halted", pool, pool)
	thick.Spec.Name = pool + "-thick"

	for key := range thick.OwnDisks {
		thick.OwnDisks[key] = domain.OwnDisk{Pool: pool, Bytes: 8 << 20, Preallocation: storage.PreallocationFull}
	}

	raw := thick.Spec.Disks["disk1"]
	raw.Format = "raw"
	thick.Spec.Disks["disk1"] = raw
	unlimited := labFleet(t, l, "no limit", nil)
	vm = create(t, unlimited, l, thick)

	takes := func(key string, mib int) {
		t.Helper()

		blocks := strings.TrimSpace(l.Run(t, "kvm1", "stat", "-c", "%b", vm.Metadata.OwnDisks[key].Path))
		if n, err := strconv.Atoi(blocks); err != nil || n < mib<<11 {
			t.Errorf("%s has %s blocks of 512 bytes, %v; want %d MiB", key, blocks, err, mib)
		}
	}
	takes("disk0", 8)
	takes("disk1", 8)

	// What a raw disk grows by is thick too.
	for key := range thick.OwnDisks {
		thick.Spec.Disks[key] = vm.PersistentSpec.Disks[key]
		thick.OwnDisks[key] = domain.OwnDisk{Pool: pool, Bytes: 12 << 20, Preallocation: storage.PreallocationFull}
	}

	if _, err := unlimited.Update(t.Context(), vm.UUID, lastOf(vm), thick); err != nil {
		t.Fatal(err)
	}

	takes("disk1", 12)

	for key, o := range vm.Metadata.OwnDisks {
		said := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", pool, o.Volume)
		if !strings.Contains(said, ">12582912</capacity>") {
			t.Errorf("%s has not grown: %s", key, said)
		}
	}

	free := func() uint64 {
		p, err := f.Storage().Hosts.Named("kvm1")[0].Conn.StoragePool(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}

		return p.AvailableBytes
	}
	for key := range thick.OwnDisks {
		thick.OwnDisks[key] = domain.OwnDisk{Pool: pool, Bytes: free() * 6 / 10, Preallocation: storage.PreallocationFull}
	}

	thick.Spec.Name = pool + "-thicker"

	problems, err = unlimited.CheckCreate(t.Context(), thick)
	if said := fmt.Sprint(problems); err != nil || !strings.Contains(said, "are needed at once") {
		t.Errorf("planning two thick disks in room for one: %s, %v", said, err)
	}
}
