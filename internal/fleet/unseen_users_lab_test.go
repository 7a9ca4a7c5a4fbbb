package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// bases are volumes of a host of the test's own, on which files are based that libvirt doesn't list.
type bases struct {
	t         *testing.T
	l         *lab.Lab
	f         *Fleet
	host, dir string
}

// withBases starts a host with the active storage pools "images" and "vms", whose directories have their names.
func withBases(t *testing.T) *bases {
	t.Helper()

	l := lab.Open(t)
	h := l.StartHost(t)
	b := &bases{t: t, l: l, host: h.Name, dir: directory(t, l, h.Name)}

	for _, pool := range []string{"images", "vms"} {
		diskPool(t, l, b.host, pool, b.dir)
	}

	b.f = labFleet(t, l, t.Name(), nil)

	return b
}

// base makes a volume of the pool "images".
func (b *bases) base(name string) storage.Ref {
	b.t.Helper()
	b.l.Virsh(b.t, b.host, "vol-create-as", "images", name, "1M", "--format", "qcow2")

	return storage.Ref{Pool: "images", Name: name}
}

// overlay makes a file without libvirt that is based on a volume.
func (b *bases) overlay(file string, on storage.Ref) {
	b.t.Helper()
	b.l.Run(b.t, b.host, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2",
		"-b", b.dir+"/"+on.Pool+"/"+on.Name, file)
}

// vm defines a VM that is off, with that file as its disk.
func (b *bases) vm(name, file string) {
	b.t.Helper()
	b.l.Define(b.t, b.host, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory><os><type>hvm`+
		`</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/><source file="%s"/><target dev="vda"/>`+
		`</disk></devices></domain>`, name, file))
}

// remove removes a volume if nothing uses it.
func (b *bases) remove(ref storage.Ref) error {
	s := b.f.Storage()

	return s.DeleteUnused(b.t.Context(), s.Hosts.Named(b.host), b.host, ref, "")
}

// stays wants that a volume isn't removed, and that the error says why.
func (b *bases) stays(ref storage.Ref, why string, parts ...string) {
	b.t.Helper()

	err := b.remove(ref)
	if err == nil {
		b.t.Errorf("%s: %s was removed", why, ref)

		return
	}

	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			b.t.Errorf("%s: %v; want %q in it", why, err, part)
		}
	}

	b.l.Virsh(b.t, b.host, "vol-info", "--pool", ref.Pool, ref.Name)
}

// goes wants that a volume is removed.
func (b *bases) goes(ref storage.Ref, why string) {
	b.t.Helper()

	if err := b.remove(ref); err != nil {
		b.t.Errorf("%s: %v", why, err)
	}
}

// A volume stays while a VM that is off may have a disk that is based on it, in a storage pool that isn't active: of
// disks that were created with their VMs, the VMs' metadata says what they are based on. A pool that libvirt stopped
// because it could not be read says no more than before.
func TestLab_baseInStoppedPoolStays(t *testing.T) {
	t.Parallel()

	b := withBases(t)
	image, base, other := b.base("image"), b.base("base"), b.base("other")

	d := light(t, b.l, lab.Name(t), nil)
	d.Metadata.Host, d.Metadata.RunStrategy = b.host, "Halted"
	d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "qcow2"}}
	d.OwnDisks = map[string]domain.OwnDisk{"root": {Pool: "vms", Image: image.String()}}
	vm := create(t, b.f, b.l, d)

	b.l.Virsh(t, b.host, "pool-destroy", "vms")
	b.stays(image, "a VM's own disk", fmt.Sprintf("VM %q on host %q uses it", vm.Name, b.host))
	b.goes(other, "what no own disk is based on")

	// Its disk could not be read either if the pool's filesystem weren't mounted.
	b.l.Run(t, b.host, "mv", b.dir+"/vms", b.dir+"/away")
	b.l.Run(t, b.host, "mkdir", b.dir+"/vms")
	b.l.Virsh(t, b.host, "pool-start", "vms")
	b.stays(image, "a VM's own disk that isn't there", fmt.Sprintf("VM %q on host %q uses it", vm.Name, b.host))
	b.l.Virsh(t, b.host, "pool-destroy", "vms")
	b.l.Run(t, b.host, "rmdir", b.dir+"/vms")
	b.l.Run(t, b.host, "mv", b.dir+"/away", b.dir+"/vms")
	b.l.Virsh(t, b.host, "pool-start", "vms")

	file := b.dir + "/vms/by-hand.qcow2"
	b.overlay(file, base)
	name := lab.Name(t)
	b.vm(name, file)

	// The first look finds a file that libvirt doesn't know and can't read the pool, which libvirt then stops.
	b.l.Run(t, b.host, "mv", b.dir+"/vms", b.dir+"/away")
	b.stays(base, "the pool can't be read", `storage pool "vms" can't be read again`)
	b.l.Run(t, b.host, "mv", b.dir+"/away", b.dir+"/vms")
	b.stays(base, "the pool was stopped", file, "virsh pool-start vms")
	b.l.Virsh(t, b.host, "pool-start", "vms")
	b.stays(base, "the pool is active again", `volume "vms/by-hand.qcow2"`)
	b.l.Virsh(t, b.host, "undefine", name)
	b.l.Virsh(t, b.host, "vol-delete", "--pool", "vms", "by-hand.qcow2")
	b.goes(base, "nothing is based on it")
}

// A pool that others stop and start while a volume's users are looked for isn't one that can't be read: the volume
// goes. libvirt doesn't know the disk of a VM in it, which is gone.
func TestLab_baseGoesWhilePoolsStop(t *testing.T) {
	t.Parallel()

	b := withBases(t)

	d := light(t, b.l, lab.Name(t), nil)
	d.Metadata.Host, d.Metadata.RunStrategy = b.host, "Halted"
	d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: "/to/be/made"}, Format: "qcow2"}}
	d.OwnDisks = map[string]domain.OwnDisk{"root": {Pool: "vms", Image: b.base("image").String()}}
	vm := create(t, b.f, b.l, d)
	b.l.Run(t, b.host, "rm", vm.Metadata.OwnDisks["root"].Path)

	var over atomic.Bool

	ended := make(chan struct{})

	go func() {
		defer close(ended)

		for !over.Load() {
			for _, verb := range []string{"pool-destroy", "pool-start"} {
				if _, err := b.l.TryVirsh(t, b.host, verb, "vms"); err != nil {
					t.Error(err)
				}
			}
		}
	}()

	for i := range 50 {
		b.goes(b.base(fmt.Sprintf("base%d", i)), "the pool was stopped or is active")
	}

	over.Store(true)
	fleettest.Await(t, ended)
}

// A volume stays while a VM that is off has a disk outside all storage pools that is based on it, also through another
// file, or whose file can't be read. A file that doesn't exist is based on nothing.
func TestLab_baseOfFileOutsidePoolsStays(t *testing.T) {
	t.Parallel()

	b := withBases(t)
	base, name := b.base("base"), lab.Name(t)
	b.l.Run(t, b.host, "mkdir", b.dir+"/home", b.dir+"/middle")

	file, middle := b.dir+"/home/disk.qcow2", b.dir+"/middle/middle.qcow2"
	b.overlay(file, base)
	b.vm(name, file)
	b.stays(base, "a file outside pools", fmt.Sprintf("VM %q on host %q", name, b.host), file)

	b.l.Run(t, b.host, "mv", file, middle)
	b.l.Run(t, b.host, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "../middle/middle.qcow2", file)
	b.stays(base, "a file that is based on a file", fmt.Sprintf("VM %q on host %q", name, b.host), middle)

	// A directory that libvirt can't read: it isn't one.
	b.l.Run(t, b.host, "mv", b.dir+"/home", b.dir+"/away")
	b.l.Run(t, b.host, "touch", b.dir+"/home")
	b.stays(base, "what can't be read", file, name)
	b.l.Run(t, b.host, "rm", b.dir+"/home")
	b.goes(base, "a directory that doesn't exist")

	base = b.base("base")
	b.l.Run(t, b.host, "mkdir", b.dir+"/home")
	b.goes(base, "a file that doesn't exist")

	// However many disks a directory has, it is read once.
	base = b.base("base")
	for i := range 3 {
		file := fmt.Sprintf("%s/home/%d.qcow2", b.dir, i)
		b.l.Run(t, b.host, "qemu-img", "create", "-q", "-f", "qcow2", file, "1M")
		b.vm(fmt.Sprintf("%s-%d", name, i), file)
	}

	reads := func() int { return b.f.Host(b.host).Conn.Calls()["virStoragePoolCreateXML"] }
	before := reads()
	b.goes(base, "files that are based on nothing")

	if n := reads() - before; n != 1 {
		t.Errorf("%d directories were read, want 1", n)
	}
}

// A volume stays while a VM has it under another path that leads through a symbolic link, also on a host whose files
// can't be compared: then libvirt tells what files of the name these are. Another file of the name is no user's.
func TestLab_volumeBehindLinkStays(t *testing.T) {
	t.Parallel()

	b := withBases(t)
	name := lab.Name(t)
	b.l.Run(t, b.host, "mkdir", b.dir+"/data", b.dir+"/home")
	b.l.Run(t, b.host, "ln", "-s", b.dir+"/data", b.dir+"/linked")
	diskPool(t, b.l, b.host, "linked", b.dir)

	volume := storage.Ref{Pool: "linked", Name: "disk.qcow2"}
	b.l.Virsh(t, b.host, "vol-create-as", volume.Pool, volume.Name, "1M", "--format", "qcow2")
	b.vm(name, b.dir+"/data/disk.qcow2")
	b.stays(volume, "a VM has it behind a link", fmt.Sprintf("VM %q on host %q uses it", name, b.host))

	b.l.Virsh(t, b.host, "undefine", name)

	other := b.dir + "/home/disk.qcow2"
	b.l.Run(t, b.host, "qemu-img", "create", "-q", "-f", "qcow2", other, "1M")
	b.vm(name+"-other", other)
	b.goes(volume, "a VM has another file of the name")
}

// A volume of a pool that two hosts have in different directories stays while a VM of the other host has its file.
func TestLab_volumeInOtherDirectoryStays(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	pool, common, dirs := lab.Name(t), t.TempDir(), map[string]string{} // What isn't libvirt's own is on all hosts.
	s := f.Storage()

	for _, host := range []string{"kvm1", "kvm2"} {
		dir := directory(t, l, host)
		dirs[host] = dir
		l.Run(t, host, "mount", "--bind", common, dir)

		apply := storage.Pool{Name: pool, Type: "dir", Path: &dir}
		failed := s.ApplyPool(t.Context(), s.Hosts.Named(host), apply, storage.PoolSettings{Shared: true})
		if len(failed) > 0 {
			t.Fatal(failed)
		}

		t.Cleanup(func() {
			for name, err := range s.RemovePool(context.WithoutCancel(t.Context()), s.Hosts.Named(host), pool, nil) {
				t.Errorf("host %s: %v", name, err)
			}
		})
	}

	l.Virsh(t, "kvm1", "vol-create-as", pool, "data", "1M", "--format", "qcow2")

	b := &bases{t: t, l: l, f: f, host: "kvm2"}
	name, volume := lab.Name(t), storage.Ref{Pool: pool, Name: "data"}
	b.vm(name, dirs["kvm2"]+"/data")

	remove := func() error {
		hosts, err := s.UserHosts(t.Context(), "kvm1", pool)
		if err != nil {
			t.Fatal(err)
		}

		return s.DeleteUnused(t.Context(), hosts, "kvm1", volume, dirs["kvm1"]+"/data")
	}

	if err := remove(); !errors.Is(err, storage.ErrInUse) || !strings.Contains(err.Error(), name) {
		t.Errorf("while a VM has it: %v", err)
	}

	l.Run(t, "kvm1", "stat", dirs["kvm1"]+"/data")
	l.Virsh(t, "kvm2", "undefine", name)

	if err := remove(); err != nil {
		t.Error(err)
	}
}

// A VM keeps running, and its disks stay, while a disk of another VM may be based on them: that one is in a storage
// pool that isn't active. When the pool is active again, the disk that has an overlay stays, and the VM goes.
func TestLab_ownDiskStaysWhileUsersAreUnknown(t *testing.T) {
	t.Parallel()

	b := withBases(t)
	d := owner(t, b.l, "Always", "images", "images")
	d.Metadata.Host = b.host
	vm := create(t, b.f, b.l, d)
	own := vm.Metadata.OwnDisks
	file := b.dir + "/vms/by-hand.qcow2"
	b.l.Run(t, b.host, "qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", own["disk0"].Path, file, "1M")
	b.vm(lab.Name(t)+"-other", file)
	b.l.Virsh(t, b.host, "pool-destroy", "vms")

	before := filesOn(t, b.l, b.host, b.dir)
	unknown := func(what string, err error) {
		t.Helper()

		if !errors.Is(err, storage.ErrUsersUnknown) || !strings.Contains(err.Error(), "virsh pool-start vms") {
			t.Errorf("%s: %v", what, err)
		}

		if now := b.l.Virsh(t, b.host, "domstate", vm.UUID); !strings.Contains(now, "running") {
			t.Errorf("%s: the VM is %s", what, now)
		}

		if now := filesOn(t, b.l, b.host, b.dir); !slices.Equal(now, before) {
			t.Errorf("%s: there are %q; want %q", what, now, before)
		}
	}

	// expects is what the plan of a destroy says of it.
	expects := func(want ...string) {
		t.Helper()
		b.f.ForgetAll()

		found, err := b.f.FindNow(t.Context(), vm.UUID, lastOf(vm))
		if err != nil {
			t.Fatal(err)
		}

		removal := b.f.Removal(t.Context(), found, nil)
		if len(removal.Deleted) != 2 || len(removal.Unclear) != len(want) ||
			len(want) > 0 && !strings.Contains(removal.Unclear[0], want[0]) {
			t.Errorf("a destroy is said to delete %q, what is unclear is %q; want %q", removal.Deleted, removal.Unclear, want)
		}
	}

	expects("virsh pool-start vms")

	_, err := b.f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	unknown("a destroy", err)
	b.l.Virsh(t, b.host, "pool-destroy", "images") // The apply starts it.
	expects("virsh pool-start vms")
	b.l.Virsh(t, b.host, "pool-start", "images")

	less := d
	less.Spec.Disks = map[string]domain.Disk{"disk0": {Source: domain.DiskSource{File: own["disk0"].Path}}}
	less.OwnDisks = map[string]domain.OwnDisk{"disk0": own["disk0"]}
	less.Removes = []string{"disk1"}
	_, err = b.f.Update(t.Context(), vm.UUID, lastOf(vm), less)
	unknown("an update", err)

	b.l.Virsh(t, b.host, "pool-start", "vms")
	expects()

	report, err := b.f.Delete(t.Context(), vm.UUID, lastOf(vm), 0)
	if err != nil {
		t.Fatal(err)
	}

	if len(report.KeptDisks) != 1 || !strings.Contains(report.KeptDisks[0], "by-hand.qcow2") {
		t.Errorf("kept are %q", report.KeptDisks)
	}

	if now := filesOn(t, b.l, b.host, b.dir); !slices.Contains(now, own["disk0"].Path) ||
		slices.Contains(now, own["disk1"].Path) {
		t.Errorf("there are %q", now)
	}
}
