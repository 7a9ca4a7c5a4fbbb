package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// overlaid adds a disk that is an overlay on an image of the host's pool, which it makes: 8 MiB of content.
func overlaid(t *testing.T, l *lab.Lab, host, pool, dir string, d *placement.Desired) (image string) {
	t.Helper()

	image = dir + "/" + pool + "/base"
	l.Run(t, host, "qemu-img", "create", "-q", "-f", "qcow2", image, "32M")
	l.Run(t, host, "qemu-io", "-c", "write -q -P 3 0 8M", image)

	// As images are: named by their content.
	name := "base-" + l.Run(t, host, "sha256sum", image)[:12]
	l.Run(t, host, "mv", image, dir+"/"+pool+"/"+name)
	l.Virsh(t, host, "pool-refresh", pool)

	d.Spec.Disks["root"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}, Format: "qcow2"}
	d.OwnDisks["root"] = domain.OwnDisk{Pool: pool, Image: pool + "/" + name, Bytes: 64 << 20}

	return dir + "/" + pool + "/" + name
}

// overlayOwner is a wish for a light VM with an overlay, a disk and a medium of its own.
func overlayOwner(t *testing.T, l *lab.Lab, host, pool, dir string) (d placement.Desired, image string) {
	t.Helper()

	d = light(t, l, lab.Name(t), nil)
	d.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw"}}
	d.Spec.Medium = &domain.DiskSource{File: "/to/be/made"}
	d.CloudInit = &firstboot.NoCloud{UserData: "#!/bin/sh"}
	d.OwnDisks = map[string]domain.OwnDisk{
		"data": {Pool: pool, Bytes: 1 << 20}, domain.MediumKey: {Pool: pool, Content: "one"},
	}

	return d, overlaid(t, l, host, pool, dir, &d)
}

// writes has the running VM write to a disk of its own, as its guest would.
func writes(t *testing.T, l *lab.Lab, vm *inventory.VM, key, what string) {
	t.Helper()

	out := l.Virsh(t, vm.Host, "qemu-monitor-command", "--hmp", vm.UUID,
		fmt.Sprintf(`qemu-io -d /machine/peripheral/ua-disk-%s/virtio-backend "write -q %s"`, key, what))
	if strings.TrimSpace(out) != "" {
		t.Fatalf("not written: %s", out)
	}
}

// fill writes to the own disks of a running VM what carries looks for.
func fill(t *testing.T, l *lab.Lab, vm *inventory.VM) {
	t.Helper()

	writes(t, l, vm, "root", "-P 7 1M 2M")
	writes(t, l, vm, "data", "-P 9 4k 8k")
	seed := vm.Metadata.OwnDisks[domain.MediumKey].Path
	l.Run(t, vm.Host, "sh", "-c", "echo seed | dd conv=notrunc status=none of="+seed)
}

// carries wants that a VM's own disks have on its host what was written to them.
func carries(t *testing.T, l *lab.Lab, vm *inventory.VM, image string) {
	t.Helper()

	root, data := vm.Metadata.OwnDisks["root"], vm.Metadata.OwnDisks["data"]
	for _, read := range []struct{ format, what, file string }{
		{"qcow2", "-P 7 1M 2M", root.Path},
		{"qcow2", "-P 3 0 1M", root.Path},
		{"qcow2", "-P 0 16M 48M", root.Path},
		{"raw", "-P 9 4k 8k", data.Path},
	} {
		out := l.Run(t, vm.Host, "qemu-io", "-U", "-r", "-f", read.format, "-c", "read "+read.what, read.file)
		if strings.Contains(out, "failed") {
			t.Errorf("host %s, %s: %s", vm.Host, read.file, out)
		}
	}

	if seed := l.Run(t, vm.Host, "head", "-c", "4", vm.Metadata.OwnDisks[domain.MediumKey].Path); seed != "seed" {
		t.Errorf("host %s: its medium begins with %q", vm.Host, seed)
	}

	mode := strings.TrimSpace(l.Run(t, vm.Host, "stat", "-c", "%a", vm.Metadata.OwnDisks[domain.MediumKey].Path))
	if mode != "600" {
		t.Errorf("host %s: its medium has the mode %s", vm.Host, mode)
	}

	info := l.Run(t, vm.Host, "qemu-img", "info", "-U", root.Path)
	if !strings.Contains(info, "backing file: "+image+"\n") {
		t.Errorf("host %s: %s; want it based on %s", vm.Host, info, image)
	}

	if root.HostUUID != vm.HostUUID || data.HostUUID != vm.HostUUID || len(vm.Metadata.LeftVolumes) != 0 ||
		len(vm.Metadata.Copies) != 0 {
		t.Errorf("recorded on host %s: %+v", vm.Host, vm.Metadata)
	}
}

// hasOnly wants that a host's pool has these files and no others.
func hasOnly(t *testing.T, l *lab.Lab, host, dir string, want ...string) {
	t.Helper()

	slices.Sort(want)

	if now := filesOn(t, l, host, dir); !slices.Equal(now, want) {
		t.Errorf("host %s has %q; want %q", host, now, want)
	}
}

// A VM's own disks move with it, while it runs and while it is off: of an overlay what it holds, onto the image, which
// is brought along where the target lacks it. Nothing of them stays where they were, and what blocks is told by
// the plan.
func TestLab_ownDisksMove(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) {
		hc.ReadEnd = func(ctx context.Context, path string, _ int) ([]byte, error) {
			text, err := l.Host(name).Run(ctx, "cat", path)

			return []byte(text), err
		}
		hc.SameFile = func(ctx context.Context, path string, paths ...string) ([]string, error) {
			const script = `f=$1; shift; for p; do test "$p" -ef "$f" && echo "$p"; done; true`
			text, err := l.Host(name).Run(ctx, "sh", append([]string{"-c", script, "", path}, paths...)...)

			return strings.Fields(text), err
		}
	})
	dir := directory(t, l, "kvm1", "kvm2")
	pool := lab.Name(t)
	diskPool(t, l, "kvm1", pool, dir)

	d, image := overlayOwner(t, l, "kvm1", pool, dir)
	d.Metadata.Host = "kvm1"
	vm := create(t, f, l, d)
	root, data := vm.Metadata.OwnDisks["root"].Path, vm.Metadata.OwnDisks["data"].Path

	seed := vm.Metadata.OwnDisks[domain.MediumKey].Path

	fill(t, l, vm)

	told := func(on *inventory.VM, target string, parts ...string) {
		t.Helper()

		problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(on), Target: target}, nil)
		if err != nil || slices.ContainsFunc(problems, func(p inventory.Problem) bool { return !p.Warning }) {
			t.Errorf("checking the move to host %s: %+v, %v", target, problems, err)
		}

		for _, part := range parts {
			if !strings.Contains(fmt.Sprint(problems), part) {
				t.Errorf("checking the move to host %s: %+v; want %q", target, problems, part)
			}
		}
	}
	refused := func(attribute, why string) {
		t.Helper()

		problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: "kvm2"}, nil)
		if err != nil || !slices.ContainsFunc(problems, func(p inventory.Problem) bool {
			return !p.Warning && p.Attribute == attribute && strings.Contains(p.Detail, why)
		}) {
			t.Errorf("%+v, %v; want %s", problems, err, why)
		}
	}

	refused("disks.data.pool", "no storage pool")
	diskPool(t, l, "kvm2", pool, dir)
	l.Virsh(t, "kvm2", "pool-destroy", pool)
	refused("disks.root.pool", "is not active")
	l.Virsh(t, "kvm2", "pool-start", pool)

	// The directory is that of a filesystem which isn't mounted, and then is.
	table := dir + ".fstab"
	l.Run(t, "kvm2", "sh", "-ec", fmt.Sprintf(
		"{ cat /etc/fstab; echo 'nas:/vms %s nfs defaults 0 0'; } >%[2]s; mount --bind %[2]s /etc/fstab", dir, table))
	<-time.After(time.Second) // Then the tables of mounts are read again.
	refused("disks.root.pool", "nothing is mounted at "+dir)
	l.Run(t, "kvm2", "mount", "--bind", dir, dir)
	<-time.After(time.Second)
	told(vm, "kvm2", "Images will be copied", "its own data on top of "+image, `On host "kvm1" they are removed`)
	l.Run(t, "kvm2", "sh", "-ec", "umount /etc/fstab; rm "+table)

	// Broken off while disks are copied: nothing is lost, and nothing of the VM is left there.
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)

	var begun domain.Metadata // as it is when all is made, and before that is noted

	listen(f, &onLog{Message: "disks are copied", Do: func() {
		definition, err := domain.Parse(l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID))
		if err != nil {
			t.Error(err)

			return
		}

		begun = definition.Metadata()
	}})

	go func() {
		_, _, err := f.Move(ctx, vm.UUID, lastOf(vm), "kvm2", crawling())
		over <- err
	}()

	awaitDisks(t, f.Host("kvm1"), vm.UUID)
	cancel()

	if err := fleettest.Await(t, over); !errors.Is(err, context.Canceled) {
		t.Errorf("moving it: %v", err)
	}

	vm, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil || vm.Host != "kvm1" || !vm.Running() {
		t.Fatalf("broken off: %+v, %v", vm, err)
	}

	carries(t, l, vm, image)
	hasOnly(t, l, "kvm1", dir, image, root, data, seed)
	hasOnly(t, l, "kvm2", dir, image)

	// A run is killed when it has made the images and not noted that: they are known again, and block no move. Nor does
	// the medium, which has been noted, as it has content already.
	if len(begun.Copies) != 3 || slices.ContainsFunc(begun.Copies, func(c domain.Copy) bool {
		return c.Creating == (c.Path == seed)
	}) {
		t.Errorf("before the migration began these were recorded: %+v", begun.Copies)
	}

	if _, err := records.WriteMetadata(t.Context(), vm, begun); err != nil {
		t.Fatal(err)
	}

	l.Run(t, "kvm2", "qemu-img", "create", "-q", "-f", "qcow2", "-b", image, "-F", "qcow2", root, "64M")
	l.Run(t, "kvm2", "truncate", "-s", fmt.Sprint(d.OwnDisks["data"].Bytes), data)
	l.Run(t, "kvm2", "sh", "-c", "echo half > "+seed)
	f.ForgetAll()
	told(vm, "kvm2")

	// What can't be removed is noted, and removed by an update.
	listen(f, &onLog{
		Message: "removing a volume that is left",
		Do:      func() { l.Virsh(t, "kvm1", "pool-destroy", pool) },
	})

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" || !now.Active || state.Method != migration.MethodBlock {
		t.Fatalf("%+v, %+v, %v", now, state, err)
	}

	if copied := state.Statistics.Disk; copied.Processed < 2<<20 || copied.Total > 6<<20 {
		t.Errorf("copied were %+v; want what the overlay has, and not the image's 8 MiB", copied)
	}

	now, err = f.FindNow(t.Context(), vm.UUID, lastOf(now))
	if err != nil || len(now.LeftVolumes()) != 1 || !strings.HasPrefix(now.LeftVolumes()[0], "kvm1: "+pool+"/") {
		t.Errorf("left are %q, %v; want one of them", now.LeftVolumes(), err)
	}

	for key, o := range now.Metadata.OwnDisks { // As Terraform knows them.
		disk := d.Spec.Disks[key]
		disk.Source.File = o.Path
		d.Spec.Disks[key] = disk
	}

	if now, err = f.Update(t.Context(), vm.UUID, lastOf(now), d); err != nil || len(now.LeftVolumes()) != 0 {
		t.Errorf("updated: %+v, %v", now, err)
	}

	carries(t, l, now, image)
	hasOnly(t, l, "kvm2", dir, image, root, data, seed)
	hasOnly(t, l, "kvm1", dir, image)

	// Back while it is off. What another VM has by now stays.
	l.Virsh(t, "kvm2", "destroy", vm.UUID)
	f.ForgetAll()
	told(now, "kvm1", "disks are removed")

	other := lab.Name(t) + "-other"
	l.RemoveDomain(t, other)
	l.Define(t, "kvm2", fmt.Sprintf(`<domain type="qemu"><name>%s</name><uuid>%s</uuid><memory>1024</memory>
		<os><type>hvm</type></os><devices><disk type="file"><source file="%s"/><target dev="vda" bus="virtio"/></disk>
		</devices></domain>`, other, uuid.NewString(), data))

	now, state, err = f.Move(t.Context(), vm.UUID, lastOf(now), "kvm1", migration.Options{})
	if err != nil || now.Host != "kvm1" || now.Active || state.Method != migration.MethodCold {
		t.Fatalf("%+v, %+v, %v", now, state, err)
	}

	if copied := state.Statistics.Disk; copied.Processed < 2<<20 || copied.Total > 6<<20 {
		t.Errorf("off, copied were %+v; want what the overlay has, and not the image's 8 MiB", copied)
	}

	carries(t, l, now, image)
	hasOnly(t, l, "kvm1", dir, image, root, data, seed)
	hasOnly(t, l, "kvm2", dir, image, data)
	l.Virsh(t, "kvm2", "undefine", other)

	if report, err := f.Delete(t.Context(), vm.UUID, lastOf(now), 0); err != nil || len(report.KeptDisks) != 0 {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	hasOnly(t, l, "kvm1", dir, image)
	hasOnly(t, l, "kvm2", dir, image, data)
}

// On a storage pool that hosts share nothing is copied and nothing removed, whether the VM runs or is off.
func TestLab_ownDisksOnASharedPool(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	dir, pool := t.TempDir(), lab.Name(t) // What isn't libvirt's own is the same on all hosts of the lab.
	hosts := f.Connections().Named("kvm1", "kvm2")

	failed := f.Storage().ApplyPool(t.Context(), hosts, storage.Pool{Name: pool, Type: "dir", Path: &dir},
		storage.PoolSettings{Shared: true})
	if len(failed) > 0 {
		t.Fatal(failed)
	}

	t.Cleanup(func() {
		for name, err := range f.Storage().RemovePool(context.WithoutCancel(t.Context()), hosts, pool, nil) {
			t.Errorf("host %s: %v", name, err)
		}
	})

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.Host = "kvm1"
	d.Spec.Disks = map[string]domain.Disk{"data": {
		Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw", Cache: "none",
	}}
	d.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: pool, Bytes: 1 << 20}}
	vm := create(t, f, l, d)
	file := vm.Metadata.OwnDisks["data"].Path

	there := ""

	for i, target := range []string{"kvm2", "kvm1"} {
		now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target, migration.Options{})
		if err != nil || now.Host != target || state.Method != []string{migration.MethodLive, migration.MethodCold}[i] ||
			len(now.Metadata.LeftVolumes)+len(now.Metadata.Copies) > 0 {
			t.Fatalf("%+v, %+v, %v", now, state, err)
		}

		hasOnly(t, l, target, dir, file)

		vm, there = now, vm.HostUUID
		if now.Active {
			l.Virsh(t, target, "destroy", vm.UUID)
			f.ForgetAll()
		}
	}

	// An update on the other host couldn't remove disks that it took from the VM. What is in the shared pool is here as
	// well. Of another file that is the same here, it isn't known who uses it.
	twins, other := t.TempDir(), pool+"-other"
	m := vm.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)

	for _, host := range []string{"kvm1", "kvm2"} {
		diskPool(t, l, host, other, twins)
	}

	twins += "/" + other
	for in, at := range map[string]string{pool: dir, other: twins} {
		m.OwnDisks[in] = domain.OwnDisk{Pool: in, Volume: "lost", Path: at + "/lost", HostUUID: there, Removing: true}

		l.Virsh(t, "kvm1", "vol-create-as", in, "lost", "1M")
	}

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	d.Metadata.RunStrategy = "Halted"
	d.Spec.Disks["data"] = domain.Disk{Source: domain.DiskSource{File: file}, Format: "raw", Cache: "none"}

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || len(now.Metadata.OwnDisks) != 1 || len(now.Metadata.LeftVolumes) > 0 || len(now.KeptDisks) != 1 ||
		!strings.Contains(now.KeptDisks[0], twins+`/lost on host "kvm2"`) {
		t.Errorf("updated: %+v, %v", now, err)
	}

	hasOnly(t, l, "kvm1", dir, file)
	hasOnly(t, l, "kvm1", twins, twins+"/lost")

	// The same if the VM is deleted before an update could.
	m = now.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)
	m.OwnDisks[pool] = domain.OwnDisk{Pool: pool, Volume: "lost", Path: dir + "/lost", HostUUID: there, Removing: true}

	l.Virsh(t, "kvm1", "vol-create-as", pool, "lost", "1M")

	if _, err := records.WriteMetadata(t.Context(), now, m); err != nil {
		t.Fatal(err)
	}

	f.ForgetAll()

	if report, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil || len(report.KeptDisks) != 0 {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	hasOnly(t, l, "kvm1", dir)
}

// A run is killed when its VM is on the target, before anything is tidied up. What is left is told, and an update
// removes it: the VM's own disks, and with keep_source_disks = false the originals of others, unless something uses
// them or they aren't what was copied.
func TestLab_ownDisksOfAKilledRun(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1", "kvm2")
	file := func(name string) string { return dir + "/" + name + ".raw" }

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.Host = "kvm1"
	d.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw"}}
	d.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: pool, Bytes: 1 << 20}}

	others := []string{"idle", "used", "grown"}
	for _, name := range others {
		l.Run(t, "kvm1", "truncate", "-s", "1M", file(name))
		d.Spec.Disks[name] = domain.Disk{Source: domain.DiskSource{File: file(name)}, Format: "raw"}
	}

	vm := create(t, f, l, d)
	data := vm.Metadata.OwnDisks["data"]
	all := []string{data.Path, file("grown"), file("idle"), file("used")}

	// What a move writes down before it sets out, here and for a drain that keeps the disks.
	begun := func(o migration.Options) (m domain.Metadata) {
		t.Helper()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		o.CopyStorage = migration.CopyFull
		listen(f, &onLog{Message: "migration started", Do: func() {
			definition, err := domain.Parse(l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID))
			if err != nil {
				t.Error(err)
			} else {
				m = definition.Metadata()
			}

			cancel()
		}})

		if _, _, err := f.Move(ctx, vm.UUID, lastOf(vm), "kvm2", o); !errors.Is(err, context.Canceled) {
			t.Fatalf("breaking it off: %v", err)
		}

		hasOnly(t, l, "kvm1", dir, all...)
		hasOnly(t, l, "kvm2", dir)

		return m
	}

	if m := begun(migration.Options{}); len(m.LeftVolumes) != 1 {
		t.Errorf("with the originals kept these are recorded: %+v", m.LeftVolumes)
	}

	m := begun(migration.Options{KeepSourceDisks: new(false)})

	vm, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil || len(vm.Metadata.LeftVolumes) != 0 {
		t.Fatalf("broken off: %+v, %v", vm, err)
	}

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	for _, image := range all {
		l.Run(t, "kvm2", "truncate", "-s", "1M", image)
	}

	l.Virsh(t, "kvm1", "migrate", "--live", "--persistent", "--undefinesource", "--copy-storage-all", "--migrate-disks",
		"vda,vdb,vdc,vdd", vm.Name, l.Host("kvm2").SocketURI())

	clone := file("clone")
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", file("used"), "-F", "raw", clone)
	l.Run(t, "kvm1", "truncate", "-s", "2M", file("grown"))
	f.ForgetAll()

	now, err := f.Find(t.Context(), vm.UUID, lastOf(vm))
	left := []string{"kvm1: " + pool + "/" + data.Volume}

	for _, name := range others {
		left = append(left, "kvm1: "+file(name))
	}

	slices.Sort(left)

	if err != nil || now.Host != "kvm2" || !slices.Equal(now.LeftVolumes(), left) {
		t.Fatalf("left are %q; want %q: %+v, %v", now.LeftVolumes(), left, now, err)
	}

	hasOnly(t, l, "kvm1", dir, append(all, clone)...)

	d.Spec.Disks["data"] = domain.Disk{Source: domain.DiskSource{File: data.Path}, Format: "raw"}
	d.Metadata.Host = "kvm2"

	now, err = f.Update(t.Context(), vm.UUID, lastOf(now), d)
	if err != nil || len(now.Metadata.LeftVolumes) != 0 || now.Metadata.OwnDisks["data"].HostUUID != now.HostUUID {
		t.Fatalf("updated: %+v, %v", now, err)
	}

	kept := strings.Join(now.KeptDisks, "\n")
	if len(now.KeptDisks) != 2 || !strings.Contains(kept, clone+" is based on it") ||
		!strings.Contains(kept, file("grown")) {
		t.Errorf("kept are %q", now.KeptDisks)
	}

	hasOnly(t, l, "kvm1", dir, file("grown"), file("used"), clone)
	hasOnly(t, l, "kvm2", dir, all...)
}

// A drain takes VMs away with their own disks, counts their bytes, leaves nothing on the host and brings all back. What
// doesn't fit into the target's storage pool in addition to the others keeps it from beginning.
func TestLab_ownDisksAreDrained(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	dir := directory(t, l, from.Name, to.Name)
	pool := lab.Name(t)
	diskPool(t, l, from.Name, pool, dir)
	l.Run(t, to.Name, "mkdir", dir+"/"+pool)
	l.Run(t, to.Name, "mount", "-t", "tmpfs", "-o", "size=16m", "none", dir+"/"+pool)
	t.Cleanup(func() {
		if _, err := to.Run(context.WithoutCancel(t.Context()), "umount", dir+"/"+pool); err != nil {
			t.Error(err)
		}
	})
	diskPool(t, l, to.Name, pool, dir)

	d, image := overlayOwner(t, l, from.Name, pool, dir)
	vm := create(t, alone, l, d)
	fill(t, l, vm)

	off := light(t, l, "off", nil)
	off.Metadata.RunStrategy = "Halted"
	off.Spec.Disks = map[string]domain.Disk{"data": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "raw"}}
	off.OwnDisks = map[string]domain.OwnDisk{"data": {Pool: pool, Bytes: 6 << 20}}
	resting := create(t, alone, l, off)
	rests := resting.Metadata.OwnDisks["data"].Path
	l.Run(t, from.Name, "dd", "if=/dev/urandom", "of="+rests, "bs=1M", "count=6", "conv=notrunc", "status=none")
	l.Virsh(t, from.Name, "pool-refresh", pool)

	plan, err := f.PlanEvacuation(t.Context(), from.Name, EvacuationQuery{MoveStopped: true})
	if err != nil || len(plan.Steps) != 2 || !strings.Contains(fmt.Sprint(plan.Steps), "NoRoom") {
		t.Errorf("planned without room for both: %+v, %v", plan, err)
	}

	crowded(t, f, vm, resting, to)
	carries(t, l, vm, image)
	hasOnly(t, l, to.Name, dir, image)

	l.Run(t, to.Name, "mount", "-o", "remount,size=64m", dir+"/"+pool)
	l.Virsh(t, to.Name, "pool-refresh", pool)
	f.ForgetAll()

	plan, err = f.PlanEvacuation(t.Context(), from.Name, EvacuationQuery{MoveStopped: true})
	if err != nil || len(plan.Steps) != 2 {
		t.Fatalf("planned: %+v, %v", plan, err)
	}

	for _, s := range plan.Steps {
		if least := map[string]uint64{vm.UUID: 34 << 20, resting.UUID: 6 << 20}[s.UUID]; s.Transfer < least {
			t.Errorf("%s: %d bytes are to be copied; want %d at least", s.Name, s.Transfer, least)
		}
	}

	steps, err := f.Drain(t.Context(), Drain{Host: from.Name, ID: "m", Why: "a test", MoveStopped: true})
	if err != nil {
		t.Fatalf("%+v, %v", steps, err)
	}

	root, data := vm.Metadata.OwnDisks["root"].Path, vm.Metadata.OwnDisks["data"].Path
	seed := vm.Metadata.OwnDisks[domain.MediumKey].Path
	hasOnly(t, l, from.Name, dir, image)
	hasOnly(t, l, to.Name, dir, image, root, data, seed, rests)

	vm, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil || vm.Host != to.Name || !vm.Running() {
		t.Fatalf("%+v, %v", vm, err)
	}

	carries(t, l, vm, image)

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	hasOnly(t, l, from.Name, dir, image, root, data, seed, rests)
	hasOnly(t, l, to.Name, dir, image)
}

// crowded wants that of two VMs, which don't both fit into the target's storage pool, the second isn't moved while the
// first is on its way. That is cut off then: its QEMU on the target dies.
func crowded(t *testing.T, f *Fleet, first, second *inventory.VM, to *lab.Host) {
	t.Helper()

	over := make(chan error, 1)

	go func() {
		_, _, err := f.Move(t.Context(), first.UUID, lastOf(first), to.Name, crawling())
		over <- err
	}()

	awaitDisks(t, f.Host(first.Host), first.UUID)
	lab.Await(t, "the copy to take its room", func() bool {
		out, err := to.Run(t.Context(), "du", "--block-size=1", first.Metadata.OwnDisks["root"].Path)
		used, _, _ := strings.Cut(out, "\t")
		bytes, _ := strconv.Atoi(used)

		return err == nil && bytes >= 2<<20
	})

	// On a busy computer the copying could be over before the second one is looked at.
	if err := to.FreezeQEMU(t.Context(), first.Name); err != nil {
		t.Fatal(err)
	}

	_, _, err := f.Move(t.Context(), second.UUID, lastOf(second), to.Name, migration.Options{})
	if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), migration.InsufficientStorage) {
		t.Errorf("moving the second one: %v", err)
	}

	if err := to.KillQEMU(t.Context(), first.Name); err != nil {
		t.Fatal(err)
	}

	if err := fleettest.Await(t, over); !errors.Is(err, move.ErrNotMoved) {
		t.Errorf("moving the first one: %v", err)
	}

	onlyOn(t, f, first.UUID, first.Host)
}

// awaitDisks waits until the VM's disks are on their way from the host.
func awaitDisks(t *testing.T, h *inventory.Host, uuid string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for {
		if job, err := h.Conn.Job(ctx, uuid); err == nil && job != nil && job.Disk.Total > 0 {
			return
		}

		if err := admission.Pause(ctx, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
