package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// abandoning is a VM that is off, with the disk "disk0", and what killed runs leave of other disks.
type abandoning struct {
	*testing.T
	l         *lab.Lab
	f         *Fleet
	home      string
	pool, dir string
	d         placement.Desired
	vm        *inventory.VM
	// root is the file of "disk0". kept is what else has to stay in the directory.
	root string
	kept []string
}

// newAbandoning uses hosts of the test's own: what other tests do on theirs may leave it unknown for a moment who uses
// a file.
func newAbandoning(t *testing.T, l *lab.Lab, more ...string) *abandoning {
	t.Helper()

	a := &abandoning{T: t, l: l, pool: lab.Name(t), home: l.StartHost(t).Name}
	a.f, a.dir = labFleet(t, l, t.Name(), nil), directory(t, l, append(more, a.home)...)

	for _, host := range append(more, a.home) {
		diskPool(t, l, host, a.pool, a.dir)
	}

	a.d = owner(t, l, "Halted", a.pool)
	a.d.Metadata.Host = a.home
	a.vm = create(t, a.f, l, a.d)
	a.root = a.vm.Metadata.OwnDisks["disk0"].Path
	a.d.Spec.Disks["disk0"] = domain.Disk{Source: domain.DiskSource{File: a.root}} // As Terraform knows it.

	return a
}

// reads reads the VM as a plan does.
func (a *abandoning) reads() *inventory.VM {
	a.Helper()
	a.f.ForgetAll()

	vm, err := a.f.Find(a.Context(), a.vm.UUID, lastOf(a.vm))
	if err != nil {
		a.Fatal(err)
	}

	return vm
}

// leaves records a disk, as a run does that is killed then, and makes its volume unless the record names a file.
func (a *abandoning) leaves(key string, o domain.OwnDisk) (file string) {
	a.Helper()

	vm := a.reads()
	o.Pool, o.HostUUID = a.pool, vm.HostUUID

	if o.Path == "" {
		o.Volume, o.Path = key+"-half", a.dir+"/"+a.pool+"/"+key+"-half"
		a.l.Virsh(a.T, vm.Host, "vol-create-as", a.pool, o.Volume, "1M", "--format", "qcow2")
	}

	m := vm.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)
	m.OwnDisks[key] = o

	if _, err := records.WriteMetadata(a.Context(), vm, m); err != nil {
		a.Fatal(err)
	}

	return o.Path
}

// shows wants that a plan shows these as left.
func (a *abandoning) shows(when string, want ...string) {
	a.Helper()

	if got := a.reads().LeftVolumes(); !slices.Equal(got, want) {
		a.Errorf("%s: left are %q; want %q", when, got, want)
	}
}

// applies updates the VM. What the update couldn't remove isn't left in what it returns, because Terraform doesn't
// accept that: the plan said that it goes. says is in what it says of disks that stay.
func (a *abandoning) applies(when string, says ...string) {
	a.Helper()

	a.f.ForgetAll()

	if problems, err := a.f.CheckUpdate(a.Context(), a.vm.UUID, lastOf(a.vm), a.d); err != nil {
		a.Errorf("%s: the plan fails: %+v, %v", when, problems, err)
	}

	now, err := a.f.Update(a.Context(), a.vm.UUID, lastOf(a.vm), a.d)
	if err != nil {
		a.Fatalf("%s: %v", when, err)
	}

	if kept := fmt.Sprint(now.KeptDisks); len(now.LeftVolumes()) > 0 || len(says) == 0 && len(now.KeptDisks) > 0 ||
		slices.ContainsFunc(says, func(part string) bool { return !strings.Contains(kept, part) }) {
		a.Errorf("%s: left are %q, kept %s; want to be told %q", when, now.LeftVolumes(), kept, says)
	}

	a.vm = now
}

// has wants that the files which have to stay and these are the only ones.
func (a *abandoning) has(more ...string) {
	a.Helper()
	hasOnly(a.T, a.l, a.home, a.dir, slices.Concat([]string{a.root}, a.kept, more)...)
}

// gone wants that the files which have to stay are the only ones, and that no other disk is recorded.
func (a *abandoning) gone(when string) {
	a.Helper()
	a.shows(when)
	a.has()

	if own := a.reads().Metadata.OwnDisks; len(own) != 1 || own["disk0"].Path != a.root {
		a.Errorf("%s: recorded are %+v", when, own)
	}
}

// What a killed run began to create, or to remove, is left over until an update removes it, which does so whatever is
// declared of other disks. What it can't remove yet stays recorded, and left over. What something uses stays.
func TestLab_abandonedOwnDisks(t *testing.T) {
	t.Parallel()

	a := newAbandoning(t, lab.Open(t))
	left := func(key string) string { return a.home + ": " + a.pool + "/" + key + "-half" }
	declared := a.d.Spec.Disks
	marks := map[string]domain.OwnDisk{
		"made": {Creating: true}, "kept": {Creating: true, OnDestroy: domain.OnDestroyKeep}, "lost": {Removing: true},
	}
	leaves := func() {
		t.Helper()

		for key, o := range marks {
			a.leaves(key, o)
		}

		a.shows("left", left("kept"), left("lost"), left("made"))
	}

	leaves()
	a.applies("declared are other disks")
	a.gone("declared are other disks")
	leaves()

	a.d.Spec.Disks = nil

	a.applies("no disk is declared")
	a.gone("no disk is declared")

	a.d.Spec.Disks = declared

	// An update starts the pool, as a destroy does.
	a.leaves("lost", marks["lost"])
	a.l.Virsh(t, a.home, "pool-destroy", a.pool)
	a.applies("the pool is stopped")
	a.gone("the pool is stopped")

	file := a.leaves("lost", marks["lost"])
	dropPool(t, a.l, a.home, a.pool)

	for range 2 {
		a.applies("the pool is undefined", file, "no such storage pool", "The next run tries again")
		a.shows("the pool is undefined", left("lost"))
	}

	a.has(file)
	diskPool(t, a.l, a.home, a.pool, a.dir)
	a.applies("the pool is back")
	a.gone("the pool is back")

	// Nothing that a definition has is left over, whatever is recorded. What another VM has is no longer this VM's.
	a.leaves("twin", domain.OwnDisk{Creating: true, Volume: "twin", Path: a.root})
	a.shows("the VM has it")
	a.applies("the VM has it")
	a.gone("the VM has it")

	file = a.leaves("lost", marks["lost"])
	other := lab.Name(t) + "-other"
	a.l.RemoveDomain(t, other)
	a.l.Define(t, a.home, `<domain type="qemu"><name>`+other+`</name><memory unit="MiB">32</memory>
		<os><type>hvm</type></os><devices><disk type="file"><source file="`+file+`"/><target dev="vda" bus="virtio"/></disk>
		</devices></domain>`)
	a.kept = append(a.kept, file)
	a.applies("another VM has it", "lost-half", other)
	a.gone("another VM has it")

	// A user has made an overlay of it, which the VM has under its key.
	a.d.Spec.Disks = nil
	overlay, base := a.dir+"/overlay", a.leaves("snap", marks["lost"])
	a.l.Run(t, a.home, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "qcow2", overlay)
	xml := a.l.Virsh(t, a.home, "dumpxml", "--inactive", a.vm.UUID)
	a.l.Define(t, a.home, strings.Replace(xml, "</devices>", `<disk type="file"><driver name="qemu" type="qcow2"/><source
		file="`+overlay+`"/><target dev="vdx" bus="virtio"/><alias name="ua-disk-snap"/></disk></devices>`, 1))

	if _, there := a.reads().PersistentSpec.Disks["snap"]; !there {
		t.Fatal("the VM doesn't have the overlay")
	}

	a.shows("the VM has an overlay")
	a.applies("the VM has an overlay")
	a.has(base, overlay)
}

// A disk is declared again that a killed run was to delete: the VM has it as it was, or a new one if it was deleted.
func TestLab_abandonedOwnDiskDeclaredAgain(t *testing.T) {
	t.Parallel()

	a := newAbandoning(t, lab.Open(t))
	// What the pool shows besides is why it is known that the volume isn't there.
	for key, deleted := range map[string]bool{"gone": true, "there": false} {
		file := a.leaves(key, domain.OwnDisk{Removing: true, Bytes: 1 << 20})
		id := func() string { return a.l.Run(t, a.home, "sh", "-c", "stat -c %i "+file+" || true") }

		was := id()
		if deleted {
			a.l.Virsh(t, a.home, "vol-delete", "--pool", a.pool, key+"-half")
		}

		a.d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
		a.d.OwnDisks[key] = domain.OwnDisk{Pool: a.pool, Bytes: 1 << 20}
		a.applies(key)
		a.shows(key)

		o := a.vm.Metadata.OwnDisks[key]
		if o.Creating || o.Removing || a.vm.PersistentSpec.Disks[key].Source.File != o.Path || o.Path == file == deleted {
			t.Errorf("%s: recorded is %+v, the VM has %+v", key, o, a.vm.PersistentSpec.Disks[key])
		}

		if !deleted && id() != was {
			t.Errorf("%s was %s, is %s", file, was, id())
		}

		a.d.Spec.Disks[key] = domain.Disk{Source: domain.DiskSource{File: o.Path}}
		a.kept = append(a.kept, o.Path)
		a.has()
	}
}

// A guest that is saved has the disks that it had: a disk whose removal was staged stays until the guest has run again.
func TestLab_ownDiskOfASavedVM(t *testing.T) {
	t.Parallel()

	a := newAbandoning(t, lab.Open(t))
	a.d.Metadata.RunStrategy = "Manual"
	a.d.Spec.Disks["more"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}, Bus: "sata"}
	a.d.OwnDisks["more"] = domain.OwnDisk{Pool: a.pool, Bytes: 1 << 20}
	a.applies("with another disk")

	more := a.vm.Metadata.OwnDisks["more"].Path
	a.l.Virsh(t, a.home, "start", a.vm.Name)
	delete(a.d.Spec.Disks, "more")
	delete(a.d.OwnDisks, "more")

	a.d.UpdatePolicy, a.d.Removes = placement.PolicyStage, []string{"more"}
	a.applies("its removal is staged")
	a.has(more)

	a.l.Virsh(t, a.home, "managedsave", a.vm.Name)
	a.shows("it is saved")

	a.d.UpdatePolicy, a.d.Removes = "", nil
	a.applies("it is saved", `disk "more"`, "saved")
	a.has(more)

	a.l.Virsh(t, a.home, "start", a.vm.Name)

	if disks := a.l.Virsh(t, a.home, "domblklist", a.vm.Name); !strings.Contains(disks, more) {
		t.Errorf("the guest that was saved has %s", disks)
	}

	a.shows("its guest has run again")
	a.l.Virsh(t, a.home, "destroy", a.vm.Name)
	a.applies("its guest has run again")
	a.gone("its guest has run again")
}

// A VM has moved since a run that took a disk from it was killed. The disk is left over on the host that it had then,
// as long as that host answers.
func TestLab_abandonedOwnDiskOfAMovedVM(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	away := l.StartHost(t).Name
	a := newAbandoning(t, l, away)
	file := a.leaves("lost", domain.OwnDisk{Removing: true})
	made := a.leaves("made", domain.OwnDisk{Creating: true})

	now, _, err := a.f.Move(t.Context(), a.vm.UUID, lastOf(a.vm), away, migration.Options{})
	if err != nil {
		t.Fatal(err)
	}

	a.vm, a.d.Metadata.Host = now, away
	left := []string{a.home + ": " + a.pool + "/lost-half", a.home + ": " + a.pool + "/made-half"}
	a.shows("moved", left...)

	// Declared again, it would be another disk here, and its data would be deleted there.
	a.d.Spec.Disks["lost"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
	a.d.OwnDisks["lost"] = domain.OwnDisk{Pool: a.pool, Bytes: 1 << 20}
	a.f.ForgetAll()

	problems, err := a.f.CheckUpdate(t.Context(), a.vm.UUID, lastOf(a.vm), a.d)
	if err != nil || len(problems) != 1 || problems[0].Warning || problems[0].Attribute != "disks.lost" ||
		!strings.Contains(problems[0].Remedy, fmt.Sprintf("move the VM to host %q", a.home)) {
		t.Errorf("the plan says %+v, %v", problems, err)
	}

	if _, err := a.f.Update(t.Context(), a.vm.UUID, lastOf(a.vm), a.d); !errors.Is(err, inventory.ErrInvalid) {
		t.Errorf("the update ends with %v", err)
	}

	// A change that moves the VM back first is no problem.
	a.d.Metadata.Host = a.home

	problems, err = a.f.CheckUpdate(t.Context(), a.vm.UUID, lastOf(a.vm), a.d)
	if err != nil || slices.ContainsFunc(problems, func(p inventory.Problem) bool { return !p.Warning }) {
		t.Errorf("with a move back, the plan says %+v, %v", problems, err)
	}

	a.d.Metadata.Host = away

	hasOnly(t, a.l, a.home, a.dir, file, made)
	hasOnly(t, a.l, away, a.dir, a.root)
	delete(a.d.Spec.Disks, "lost")
	delete(a.d.OwnDisks, "lost")

	// What has the same path here isn't the VM's.
	a.l.Virsh(t, away, "vol-create-as", a.pool, "lost-half", "1M")

	all := a.f
	a.f = labFleet(t, a.l, t.Name(), func(name string, hc *inventory.HostConfig) { hc.Fenced = name == a.home })
	a.shows("the host is fenced")
	a.applies("the host is fenced")
	a.shows("the host is fenced")
	hasOnly(t, a.l, a.home, a.dir, file, made)

	a.f = all
	a.shows("the host is back", left...)
	a.applies("the host is back")
	a.shows("the host is back")
	hasOnly(t, a.l, a.home, a.dir)
	hasOnly(t, a.l, away, a.dir, file, a.root)

	// It goes with the VM, too.
	a.leaves("again", domain.OwnDisk{Creating: true})
	a.leaves("none", domain.OwnDisk{Creating: true, Volume: "none", Path: a.dir + "/" + a.pool + "/none"})

	seed := a.leaves(domain.MediumKey, domain.OwnDisk{Creating: true})

	if _, _, err := a.f.Move(t.Context(), a.vm.UUID, lastOf(a.vm), a.home, migration.Options{}); err != nil {
		t.Fatal(err)
	}

	removal := a.f.Removal(t.Context(), a.reads(), nil)
	if want := fmt.Sprintf("the cloud-init medium: %s on host %q, which an interrupted run began to create", seed,
		away); !slices.Contains(removal.Deleted, want) {
		t.Errorf("deleted are %q, want %q in it", removal.Deleted, want)
	}

	// A volume that was never made leaves nothing, whatever else its pool has: nothing.
	a.l.Virsh(t, away, "vol-delete", "--pool", a.pool, "lost-half")

	report, err := a.f.Delete(t.Context(), a.vm.UUID, lastOf(a.vm), 0)
	if err != nil || len(report.KeptDisks) > 0 {
		t.Errorf("deleting the VM: %+v, %v", report, err)
	}

	hasOnly(t, a.l, a.home, a.dir)
	hasOnly(t, a.l, away, a.dir)
}

// Whether a host uses what is left in a pool that it shares isn't known while it doesn't answer. That keeps no VM from
// being changed.
func TestLab_abandonedOwnDiskOfASharedPool(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	other := l.StartHost(t)
	a := newAbandoning(t, l, other.Name)
	dir, pool := t.TempDir(), a.pool+"-shared" // What isn't libvirt's own is the same on all hosts of the lab.
	hosts := a.f.Connections().Named(a.home, other.Name)

	failed := a.f.Storage().ApplyPool(t.Context(), hosts, storage.Pool{Name: pool, Type: "dir", Path: &dir},
		storage.PoolSettings{Shared: true})
	if len(failed) > 0 {
		t.Fatal(failed)
	}

	file := dir + "/lost"
	a.l.Virsh(t, a.home, "vol-create-as", pool, "lost", "1M", "--format", "qcow2")

	m := a.vm.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)
	m.OwnDisks["lost"] = domain.OwnDisk{
		Pool: pool, Volume: "lost", Path: file, HostUUID: a.vm.HostUUID, Removing: true,
	}

	if _, err := records.WriteMetadata(t.Context(), a.vm, m); err != nil {
		t.Fatal(err)
	}

	left := a.home + ": " + pool + "/lost"
	restart := l.KillLibvirtd(t, other)

	a.shows("a host is silent", left)
	a.applies("a host is silent", pool+"/lost", other.Name, "shares the pool")
	a.shows("a host is silent", left)
	hasOnly(t, l, a.home, dir, file)
	restart()
	a.applies("all hosts answer")
	a.gone("all hosts answer")
	hasOnly(t, l, a.home, dir)

	// What was left when the VM was on the other host is here, too: declared again, it is the VM's disk once more.
	info, err := a.f.Host(other.Name).Conn.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	a.l.Virsh(t, a.home, "vol-create-as", pool, "lost", "1M", "--format", "qcow2")

	vm := a.reads()
	m = vm.Metadata
	m.OwnDisks = maps.Clone(m.OwnDisks)
	m.OwnDisks["lost"] = domain.OwnDisk{Pool: pool, Volume: "lost", Path: file, HostUUID: info.UUID, Removing: true}

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	a.d.Spec.Disks["lost"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
	a.d.OwnDisks["lost"] = domain.OwnDisk{Pool: pool, Bytes: 1 << 20}
	a.applies("it is declared again")

	own := a.vm.Metadata.OwnDisks
	if o := own["lost"]; len(own) != 2 || o.Path != file || o.HostUUID != a.vm.HostUUID || o.Removing || o.Creating ||
		!a.vm.HasFile(file) {
		t.Errorf("declared again, it is %+v, recorded are %+v", a.vm.PersistentSpec.Disks["lost"], own)
	}

	hasOnly(t, l, a.home, dir, file)
	delete(a.d.Spec.Disks, "lost")
	delete(a.d.OwnDisks, "lost")

	a.d.Removes = []string{"lost"}
	a.applies("it is removed")
	a.gone("it is removed")
	hasOnly(t, l, a.home, dir)

	for name, err := range a.f.Storage().RemovePool(t.Context(), hosts, pool, nil) {
		t.Errorf("host %s: %v", name, err)
	}
}

// A disk that another run is creating is left over for those who look meanwhile. Who changes the VM waits for that run,
// and then removes nothing: the VM has the disk.
func TestLab_ownDiskThatAnotherRunIsCreating(t *testing.T) {
	t.Parallel()

	a := newAbandoning(t, lab.Open(t))
	other, without := labFleet(t, a.l, "another run", nil), a.d
	without.Spec.Disks = maps.Clone(a.d.Spec.Disks)
	without.OwnDisks = maps.Clone(a.d.OwnDisks)
	a.d.Spec.Disks["more"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
	a.d.OwnDisks["more"] = domain.OwnDisk{Pool: a.pool, Bytes: 1 << 20}

	type result struct {
		vm  *inventory.VM
		err error
	}

	ended, waits := make(chan result, 1), make(chan struct{})

	listen(other, &onLog{Message: "waiting for another run's lease", Do: func() { close(waits) }})
	listen(a.f, &onLog{Message: "creating a disk", Do: func() {
		vm, err := other.Find(t.Context(), a.vm.UUID, lastOf(a.vm))
		if err != nil || len(vm.LeftVolumes()) != 1 {
			t.Errorf("another run sees %+v, %v; want the disk that is being created", vm, err)
		}

		go func() {
			vm, err := other.Update(t.Context(), a.vm.UUID, lastOf(a.vm), without)
			ended <- result{vm, err}
		}()

		select {
		case <-waits:
		case r := <-ended:
			t.Errorf("the other run didn't wait: %v", r.err)

			ended <- r
		case <-time.After(fleettest.Patience):
			fleettest.Hung(t, "the other run to wait")
		}
	}})

	now, err := a.f.Update(t.Context(), a.vm.UUID, lastOf(a.vm), a.d)
	if err != nil || !now.HasFile(now.Metadata.OwnDisks["more"].Path) {
		t.Errorf("the VM should have the disk: %+v, %v", now, err)
	}

	file := now.Metadata.OwnDisks["more"].Path

	then := fleettest.Await(t, ended)
	if then.err != nil || then.vm.HasFile(file) || !strings.Contains(fmt.Sprint(then.vm.KeptDisks), file) {
		t.Errorf("the other run: %+v, %v; want to be told that %s stays", then.vm, then.err, file)
	}

	a.has(file)
	a.shows("both runs have ended")
}

// A deletion was interrupted when it had deleted one of the VM's disks: nothing changes or starts the VM, and the next
// deletion completes the first. While no disk is gone, the VM is as it was, and a start ends the mark.
func TestLab_deletionThatWasInterrupted(t *testing.T) {
	t.Parallel()

	a := newAbandoning(t, lab.Open(t))
	marked := func() {
		t.Helper()

		vm := a.reads()
		m := vm.Metadata
		m.Deleting = &domain.Deleting{Owner: "killed", Since: time.Now()}

		if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
			t.Fatal(err)
		}
	}
	marked()

	if left := a.f.InterruptedDeletion(t.Context(), a.reads()); left != nil {
		t.Errorf("nothing is deleted: %+v", left)
	}

	a.d.Metadata.RunStrategy = "Always"
	a.applies("nothing is deleted")

	if vm := a.reads(); !vm.Active || vm.Metadata.Deleting != nil {
		t.Errorf("the VM is active: %v, marked: %+v", vm.Active, vm.Metadata.Deleting)
	}

	a.l.Virsh(t, a.home, "destroy", a.vm.Name)

	// Another volume in the pool shows that the disk's is gone.
	a.l.Virsh(t, a.home, "vol-create-as", a.pool, "other", "1M")
	a.kept = append(a.kept, a.dir+"/"+a.pool+"/other")
	marked()
	a.l.Virsh(t, a.home, "vol-delete", "--pool", a.pool, a.vm.Metadata.OwnDisks["disk0"].Volume)

	_, planned := a.f.CheckUpdate(t.Context(), a.vm.UUID, lastOf(a.reads()), a.d)
	_, updated := a.f.Update(t.Context(), a.vm.UUID, lastOf(a.reads()), a.d)
	permit := a.f.AdmitReturn(a.reads())
	started := a.f.Start(t.Context(), permit, a.reads())

	for what, err := range map[string]error{"plan": planned, "update": updated, "start": started} {
		said, ok := errors.AsType[*inventory.Error](err)
		if !ok || !errors.Is(err, inventory.ErrBusy) || !strings.Contains(said.Detail, "which killed began at") ||
			!strings.Contains(said.Detail, "disks.disk0: "+a.root) {
			t.Errorf("%s: %v", what, err)
		}
	}

	if deleted := fmt.Sprint(a.f.Removal(t.Context(), a.reads(), nil).Deleted); !strings.Contains(deleted, "already") {
		t.Errorf("deleted are %s", deleted)
	}

	if _, err := a.f.Delete(t.Context(), a.vm.UUID, lastOf(a.reads()), 0); err != nil {
		t.Fatal(err)
	}

	if _, err := a.f.Find(t.Context(), a.vm.UUID, lastOf(a.vm)); !inventory.IsNotFound(err) {
		t.Errorf("the VM is still there: %v", err)
	}

	hasOnly(t, a.l, a.home, a.dir, a.kept...)
}
