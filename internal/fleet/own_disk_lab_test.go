package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// diskPool defines and starts a storage pool at <dir>/<name> on a host.
func diskPool(t *testing.T, l *lab.Lab, host, name, dir string) {
	t.Helper()
	l.Run(t, host, "mkdir", "-p", dir+"/"+name)
	l.Virsh(t, host, "pool-define-as", name, "dir", "--target", dir+"/"+name)
	l.Virsh(t, host, "pool-start", name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		undefine := fmt.Sprintf("virsh pool-destroy %[1]s; virsh pool-undefine %[1]s; true", name)
		if _, err := l.Host(host).Run(ctx, "sh", "-c", undefine); err != nil {
			t.Error(err)
		}
	})
}

// withPool opens the lab, and defines a storage pool on hosts, in a directory of the test's own.
func withPool(t *testing.T, hosts ...string) (l *lab.Lab, f *Fleet, pool, dir string) {
	t.Helper()

	l, pool = lab.Open(t), lab.Name(t)
	f, dir = labFleet(t, l, t.Name(), nil), directory(t, l, hosts...)

	for _, host := range hosts {
		diskPool(t, l, host, pool, dir)
	}

	return l, f, pool, dir
}

// dropPool undefines a storage pool.
func dropPool(t *testing.T, l *lab.Lab, host, name string) {
	t.Helper()
	l.Virsh(t, host, "pool-destroy", name)
	l.Virsh(t, host, "pool-undefine", name)
}

// owner is a wish for a VM on kvm1 with an own disk for each pool, whose key is the pool's place in the list.
func owner(t *testing.T, l *lab.Lab, strategy string, pools ...string) placement.Desired {
	t.Helper()

	d := guest(l, lab.Name(t), "noagent")
	d.Metadata.Host, d.Metadata.RunStrategy = "kvm1", strategy
	d.Spec.Disks, d.OwnDisks = map[string]domain.Disk{}, map[string]domain.OwnDisk{}

	for i, pool := range pools {
		key := fmt.Sprintf("disk%d", i)
		d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
		d.OwnDisks[key] = domain.OwnDisk{Pool: pool, Bytes: 1 << 20}
	}

	return d
}

// filesOn are the files below a directory of a host.
func filesOn(t *testing.T, l *lab.Lab, host, dir string) []string {
	t.Helper()

	return strings.Fields(l.Run(t, host, "sh", "-c", "find "+dir+" -type f | sort"))
}

// A VM isn't destroyed while a pool of its disks is gone, and nothing of it is lost. What another definition has, or
// another volume is based on, stays when it goes.
func TestLab_ownDisksThatCanNotGo(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1")
	one, two := lab.Name(t)+"-one", lab.Name(t)+"-two"
	diskPool(t, l, "kvm1", one, dir)
	diskPool(t, l, "kvm1", two, dir)

	vm := create(t, f, l, owner(t, l, "Halted", one, two, two))

	files := filesOn(t, l, "kvm1", dir)
	if len(files) != 3 {
		t.Fatalf("there are %q; want three", files)
	}

	dropPool(t, l, "kvm1", two)

	_, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if !errors.Is(err, libvirt.ErrNoPool) || !strings.Contains(err.Error(), two) || errRemedy(err) == "" {
		t.Errorf("deleting it without pool %s: %v", two, err)
	}

	if now := filesOn(t, l, "kvm1", dir); !slices.Equal(now, files) {
		t.Errorf("there are %q; want %q", now, files)
	}

	onlyOn(t, f, vm.UUID, "kvm1")
	diskPool(t, l, "kvm1", two, dir)

	used, base := vm.Metadata.OwnDisks["disk1"], vm.Metadata.OwnDisks["disk2"]
	name := lab.Name(t) + "-other"
	l.RemoveDomain(t, name)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%[1]s</name><uuid>%[2]s</uuid><memory>1024</memory>
		<os><type>hvm</type></os><devices><disk type="volume"><driver name="qemu" type="qcow2"/>
		<source pool="%[3]s" volume="%[4]s"/><target dev="vda" bus="virtio"/></disk></devices></domain>`,
		name, uuid.NewString(), used.Pool, used.Volume))
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", base.Path, "-F", "qcow2", dir+"/"+one+"/overlay")
	l.Virsh(t, "kvm1", "pool-refresh", one)

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	said := fmt.Sprint(report.KeptDisks)
	if err != nil || len(report.KeptDisks) != 2 || !strings.Contains(said, name) || !strings.Contains(said, "overlay") {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	want := []string{dir + "/" + one + "/overlay", used.Path, base.Path}
	slices.Sort(want)

	if now := filesOn(t, l, "kvm1", dir); !slices.Equal(now, want) {
		t.Errorf("there are %q; want %q", now, want)
	}
}

// A disk that is declared no longer, and whose pool is in another directory now, stays, and the caller learns which
// file.
func TestLab_ownDiskLeftByItsPool(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1")

	d := owner(t, l, "Halted", pool)
	vm := create(t, f, l, d)
	disk := vm.Metadata.OwnDisks["disk0"]

	dropPool(t, l, "kvm1", pool)
	diskPool(t, l, "kvm1", pool, dir+"/other")

	d.Spec.Disks, d.OwnDisks, d.Removes = map[string]domain.Disk{}, nil, []string{"disk0"}

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || len(now.KeptDisks) != 1 || !strings.Contains(now.KeptDisks[0], disk.Path) {
		t.Errorf("%+v, %v; want to be told of %s", now, err, disk.Path)
	}

	l.Run(t, "kvm1", "test", "-e", disk.Path)
}

// A disk that is no longer declared is deleted if the plan says so, and only if the VM has it: not if a user has
// detached it, and not if it may be the base of what the VM has instead.
func TestLab_ownDisksThatNoPlanRemoves(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1")

	d := owner(t, l, "Halted", pool, pool, pool, pool, pool)
	vm := create(t, f, l, d)
	all := filesOn(t, l, "kvm1", dir)
	own := vm.Metadata.OwnDisks
	at := func(key string) string { return own[key].Path }
	defined := func() string { return l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID) }
	undeclare := func(key string) {
		d.Spec.Disks, d.OwnDisks = maps.Clone(d.Spec.Disks), maps.Clone(d.OwnDisks)
		delete(d.Spec.Disks, key)
		delete(d.OwnDisks, key)
	}
	update := func(says ...string) {
		t.Helper()

		f.ForgetAll()

		planned, err := f.CheckUpdate(t.Context(), vm.UUID, lastOf(vm), d)
		if err != nil {
			t.Fatal(err)
		}

		now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
		if err != nil {
			t.Fatal(err)
		}

		for _, part := range says {
			if plan := fmt.Sprint(planned); !strings.Contains(plan, part) {
				t.Errorf("the plan says %s; want %q", plan, part)
			}
		}

		if kept := fmt.Sprint(now.KeptDisks); len(says) > 1 && !strings.Contains(kept, says[1]) ||
			len(says) < 2 && len(now.KeptDisks) > 0 {
			t.Errorf("kept are %s; the plan was to say %q", kept, says)
		}
	}
	has := func(want ...string) {
		t.Helper()
		hasOnly(t, l, "kvm1", dir, want...)
	}

	// As Terraform knows them. The state doesn't have a disk that a user has detached.
	for _, key := range []string{"disk1", "disk2", "disk3", "disk4"} {
		d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: at(key)}}
	}

	// As long as it is declared, a disk that a user has detached is attached again.
	l.Virsh(t, "kvm1", "detach-disk", vm.UUID, at("disk0"), "--config")
	update()

	if !strings.Contains(defined(), at("disk0")) {
		t.Errorf("%s isn't attached again", at("disk0"))
	}

	// A destroy says that it goes with the VM. If it is declared no longer, no plan can name it, and it stays.
	l.Virsh(t, "kvm1", "detach-disk", vm.UUID, at("disk0"), "--config")
	f.ForgetAll()

	found, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	removal := fmt.Sprint(f.Removal(t.Context(), found, nil).Deleted)
	if !strings.Contains(removal, at("disk0")+", which a user has") {
		t.Errorf("a destroy is said to delete %s", removal)
	}

	undeclare("disk0")
	update("are kept", at("disk0"), "vol-delete --pool "+pool)
	update()

	// The VM has overlays now, which a user declares or removes.
	xml := defined()
	for _, key := range []string{"disk1", "disk2"} {
		overlay := dir + "/" + key
		l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", at(key), "-F", "qcow2", overlay)
		xml = strings.Replace(xml, "file='"+at(key)+"'", "file='"+overlay+"'", 1)
		all = append(all, overlay)
		d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: overlay}}
	}

	l.Define(t, "kvm1", xml)
	delete(d.OwnDisks, "disk1")
	update("are kept", at("disk1"), dir+"/disk1 instead")
	undeclare("disk2")
	d.Removes = []string{"disk2"}
	update("are kept", at("disk2"), dir+"/disk2 instead")
	has(all...)

	// The plan names this one. The next one is what an apply has left that couldn't delete it.
	undeclare("disk3")
	d.Removes = []string{"disk3"}
	update()

	all = slices.DeleteFunc(all, func(file string) bool { return file == at("disk3") })
	has(all...)

	mark := func() {
		t.Helper()
		f.ForgetAll()

		if found, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
			t.Fatal(err)
		}

		metadata := found.Metadata
		left := metadata.OwnDisks["disk4"]
		left.Removing = true
		metadata.OwnDisks = map[string]domain.OwnDisk{"disk4": left}

		if _, err := records.WriteMetadata(t.Context(), found, metadata); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(from, to string) {
		t.Helper()

		disk, made := d.Spec.Disks[from], d.OwnDisks[from]
		undeclare(from)
		d.Spec.Disks[to], d.OwnDisks[to] = disk, made
		d.Renamed = map[string]string{to: from}
		update()
		d.Renamed = nil
		has(all...)

		if !strings.Contains(defined(), at("disk4")) {
			t.Errorf("under its new key %s, the disk is another one", to)
		}
	}

	// An apply that failed before the definition lost the disk has only marked it.
	mark()

	d.Removes = nil
	rename("disk4", "renamed")
	rename("renamed", "disk4")

	mark()
	l.Virsh(t, "kvm1", "detach-disk", vm.UUID, at("disk4"), "--config")
	undeclare("disk4")
	update("deleted with their data")

	all = slices.DeleteFunc(all, func(file string) bool { return file == at("disk4") })
	has(all...)

	if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
		t.Error(err)
	}

	has(all...)
}

// A VM that a user starts again while it is deleted keeps its definition and its disk, and isn't said to be gone.
func TestLab_deleteOfAVMThatIsStartedMeanwhile(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	vm := create(t, f, l, owner(t, l, "Halted", "default"))
	disk := vm.Metadata.OwnDisks["disk0"]

	// It is off, and its disk is about to be removed.
	_, unlock, err := bob.Lock(t.Context(), vm.On, "volume:"+disk.Pool+"/"+disk.Volume, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	fleettest.Listen(f, &onLog{Message: "waiting for another run's lease", Do: func() {
		l.Virsh(t, "kvm1", "start", vm.UUID)
		unlock()
	}})

	if report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); !errors.Is(err, inventory.ErrBusy) {
		t.Errorf("%+v, %v; want to be told that it was started", report, err)
	}

	if info := l.Virsh(t, "kvm1", "dominfo", vm.UUID); !strings.Contains(info, "running") ||
		!regexp.MustCompile(`Persistent: +yes`).MatchString(info) {
		t.Errorf("it is\n%s", info)
	}

	l.Run(t, "kvm1", "test", "-e", disk.Path)

	if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
		t.Error(err)
	}

	onlyOn(t, f, vm.UUID, "")
	nothingOn(t, l, "kvm1", disk.Path)
}

// The record of a disk that came to another host with the definition says nothing of a volume there.
func TestLab_ownDisksOfAnotherHost(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1", "kvm2")

	vm := create(t, f, l, owner(t, l, "Halted", pool, pool))

	// Moved by hand: one disk came along, instead of the other it has another file.
	came, left := vm.Metadata.OwnDisks["disk0"], vm.Metadata.OwnDisks["disk1"]
	mine := dir + "/mine"
	xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID)
	l.Virsh(t, "kvm1", "undefine", vm.UUID)
	l.Define(t, "kvm2", strings.Replace(xml, "file='"+left.Path+"'", "file='"+mine+"'", 1))

	for _, file := range []string{came.Path, left.Path, mine} {
		l.Run(t, "kvm2", "qemu-img", "create", "-q", "-f", "qcow2", file, "1M")
	}

	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", mine, "1M") // As if it were an overlay that was copied.

	now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	// What stays is named before: the file that the VM uses, what that may be a copy of, and the volume on the host where
	// it was created.
	f.Host("kvm1").Config.Exist = func(ctx context.Context, paths ...string) (map[string]bool, error) {
		there := map[string]bool{}

		for _, path := range paths {
			_, err := l.Host("kvm1").Run(ctx, "test", "-e", path)
			there[path] = err == nil
		}

		return there, nil
	}
	stays := f.Removal(t.Context(), now, nil)
	made := fmt.Sprintf("disks.disk1: %s, which was created on host \"kvm1\"", left.Path)

	copied := fmt.Sprintf("disks.disk1: %s on host \"kvm1\", which the VM may have used before it moved", mine)

	if !slices.Equal(stays.Aside, []string{"disks.disk1: " + mine}) ||
		!slices.Equal(stays.Missing, []string{made, copied}) {
		t.Errorf("%+v; want that %s and %s stay", stays, mine, left.Path)
	}

	report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if err != nil || len(report.KeptDisks) != 1 || !strings.Contains(report.KeptDisks[0], left.Volume) {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	want := []string{mine, left.Path}
	slices.Sort(want)

	if now := filesOn(t, l, "kvm2", dir); !slices.Equal(now, want) {
		t.Errorf("kvm2 has %q; want %q", now, want)
	}

	if now := filesOn(t, l, "kvm1", dir); len(now) != 3 {
		t.Errorf("kvm1 has %q; want both disks and %s", now, mine)
	}
}

// A creation that fails leaves nothing, unless a guest may have written to the disks: then all is kept.
func TestLab_ownDisksOfACreationThatFails(t *testing.T) {
	t.Parallel()

	l, pool := lab.Open(t), lab.Name(t)
	host := l.StartHost(t).Name // What other tests do on theirs may leave it unknown for a moment who uses a file.
	f, dir := labFleet(t, l, t.Name(), nil), directory(t, l, host)
	diskPool(t, l, host, pool, dir)

	d := owner(t, l, "Always", pool, pool)
	d.Metadata.Host = host
	d.Spec.Kernel.Path = dir + "/kernel" // It isn't there, so it is defined and doesn't start.
	l.RemoveDomain(t, d.Spec.Name)

	vm, failed := f.Create(t.Context(), d)
	if failed == nil || vm != nil {
		t.Fatalf("creating it without its kernel: %+v, %v", vm, failed)
	}

	if left, err := f.FindByName(t.Context(), d.Spec.Name); !inventory.IsNotFound(err) {
		t.Errorf("creating it ended with %v; it is still there: %+v, %v", failed, left, err)
	}

	nothingOn(t, l, host, dir+"/"+pool+"/*")

	// Broken off when its guest had been started, and was shut down since.
	d.Spec.Kernel.Path = l.KernelPath()
	id := leaveCreating(t, l, d, host)

	l.Virsh(t, host, "start", id)
	l.Virsh(t, host, "destroy", id)

	vm, err := f.FindNow(t.Context(), id, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	kept, gone := vm.Metadata.OwnDisks["disk0"].Path, vm.Metadata.OwnDisks["disk1"].Path
	l.Run(t, host, "mv", gone, gone+".away")

	remove := "virsh vol-delete --pool " + pool + " " + path.Base(kept) // Without the definition, nothing else would.

	if vm, err := f.Create(t.Context(), d); err == nil || vm != nil || !strings.Contains(err.Error(), "kept") ||
		!strings.Contains(err.Error(), remove) {
		t.Errorf("completing it without a disk: %+v, %v", vm, err)
	}

	onlyOn(t, f, id, host)

	if now := filesOn(t, l, host, dir); !slices.Equal(now, []string{kept, gone + ".away"}) {
		t.Errorf("there are %q; want %q", now, []string{kept, gone + ".away"})
	}

	l.Run(t, host, "mv", gone+".away", gone)

	// As if the run had been killed before it noted that the disks are complete.
	making := func(is bool) {
		t.Helper()

		vm, err := f.FindNow(t.Context(), id, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		m := vm.Metadata
		m.OwnDisks = maps.Clone(m.OwnDisks)

		for key, o := range m.OwnDisks {
			o.Creating = is
			m.OwnDisks[key] = o
		}

		if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
			t.Fatal(err)
		}
	}

	l.Run(t, host, "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 64k", kept) // For its guest, which has not booted.
	making(true)

	if vm, err := f.Create(t.Context(), d); vm != nil || !errors.Is(err, inventory.ErrExists) ||
		errors.Is(err, inventory.ErrBusy) || !strings.Contains(err.Error(), kept) ||
		strings.Contains(err.Error(), "completes it") || !strings.Contains(errRemedy(err), "--managed-save "+id) ||
		!strings.Contains(errRemedy(err), remove) {
		t.Errorf("completing it when its guest has written to a disk that may be incomplete: %+v, %v, %s", vm, err,
			errRemedy(err))
	}

	l.Run(t, host, "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", kept)
	making(false)

	vm, err = f.Create(t.Context(), d)
	if err != nil || vm.UUID != id || !vm.Active {
		t.Fatalf("completing it: %+v, %v", vm, err)
	}

	if err := f.FinishCreate(t.Context(), vm); err != nil {
		t.Fatal(err)
	}

	if report, err := f.Delete(t.Context(), id, lastOf(vm), 0); err != nil || len(report.KeptDisks) != 0 {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	nothingOn(t, l, host, dir+"/"+pool+"/*")
}
