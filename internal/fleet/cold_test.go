package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// directory is one on both hosts that no pool covers.
func directory(t *testing.T, l *lab.Lab, hosts ...string) string {
	t.Helper()

	dir := "/var/lib/libvirt/" + lab.Name(t)

	for _, host := range hosts {
		l.Run(t, host, "mkdir", "-p", dir)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()

			if _, err := l.Host(host).Run(ctx, "sh", "-c", "umount -q "+dir+"/* "+dir+"; rm -rf "+dir); err != nil {
				t.Error(err)
			}
		})
	}

	return dir
}

// resting is a VM on kvm1 that is off, with a disk of that many MiB of data on its host.
func resting(
	t *testing.T, f *Fleet, l *lab.Lab, dir string, mib int, change func(*placement.Desired),
) (vm *inventory.VM, file string) {
	t.Helper()

	d := guest(l, lab.Name(t), "noagent")
	file = dir + "/" + d.Spec.Name + ".qcow2"
	l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf("qemu-img create -q -f qcow2 %[1]s 256M && "+
		"head -c %[2]dM /dev/urandom >%[1]s.raw && "+
		"qemu-io -f qcow2 -c 'write -q -s %[1]s.raw 1M %[2]dM' %[1]s && rm %[1]s.raw", file, mib))

	d.Metadata.Host, d.Metadata.RunStrategy = "kvm1", "Halted"
	d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: file}, Format: "qcow2"}}

	if change != nil {
		change(&d)
	}

	vm = create(t, f, l, d)

	return vm, file
}

func checksum(t *testing.T, l *lab.Lab, host, file string) string {
	t.Helper()

	return l.Run(t, host, "sh", "-c", "sha256sum <"+file)
}

// nothingOn fails the test if the host has one of the files.
func nothingOn(t *testing.T, l *lab.Lab, host string, files ...string) {
	t.Helper()

	for _, file := range files {
		if out := l.Run(t, host, "sh", "-c", "ls -d "+file+" 2>/dev/null || true"); out != "" {
			t.Errorf("on %s there is %s", host, out)
		}
	}
}

// A VM that is off takes along its disks, the variables of its firmware and the state of its TPM, byte by byte, and
// starts from them on the target, where QEMU's and swtpm's users have other ids. The password of its screen goes with
// it.
func TestLab_coldMoveTakesFilesAlong(t *testing.T) {
	t.Parallel()

	// The target's QEMU runs as a user of its own, the source's as root.
	const target = "kvm3"

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", target)
	vm, file := resting(t, f, l, dir, 8, func(d *placement.Desired) {
		d.Spec.Firmware.Type = new("efi")
		d.GraphicsPassword = new("secret12")
	})
	last := lastOf(vm)

	complete, err := vm.On.Conn.CompleteXML(t.Context(), vm.UUID)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := vm.On.Conn.DefineDomain(t.Context(), strings.Replace(complete, "</devices>",
		`<tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm></devices>`, 1)); err != nil {
		t.Fatal(err)
	}

	// The first start makes the variables and the TPM's state.
	l.Virsh(t, "kvm1", "start", vm.UUID)
	l.Virsh(t, "kvm1", "destroy", vm.UUID)

	nvram := "/var/lib/libvirt/qemu/nvram/" + vm.Name + "_VARS.fd"
	tpm := "/var/lib/libvirt/swtpm/" + vm.UUID
	files := []string{file, nvram, tpm + "/tpm2/tpm2-00.permall"}

	l.Run(t, "kvm1", "sh", "-c", "printf mark | dd of="+nvram+" bs=1 seek=500000 conv=notrunc status=none")

	l.Run(t, "kvm1", "chown", "-R", "997:996", nvram, tpm+"/tpm2")

	permissions := func(host string) string {
		return l.Run(t, host, "stat", "-c", "%n %a %u:%g", nvram, tpm, tpm+"/tpm2", files[2])
	}
	owned := permissions("kvm1")

	var before []string
	for _, name := range files {
		before = append(before, checksum(t, l, "kvm1", name))
	}

	problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: last, Target: target}, nil)
	if err != nil || len(problems) != 2 || !problems[0].Warning || !problems[1].Warning {
		t.Fatalf("checking the move: %+v, %v", problems, err)
	}

	announced := problems[1].Summary + problems[1].Detail
	for _, part := range []string{migration.MethodCold, `disk "root": ` + file, nvram, tpm, "disks are kept"} {
		if !strings.Contains(announced, part) {
			t.Errorf("what is announced does not say %s:\n%s", part, announced)
		}
	}

	now, state, err := f.Move(t.Context(), vm.UUID, last, target, migration.Options{})
	if err != nil {
		t.Fatal(err)
	}

	if now.Host != target || now.Active || len(now.StaleHosts) > 0 || len(now.Metadata.Copies) > 0 ||
		state.Method != migration.MethodCold || state.Phase != migration.PhaseSucceeded ||
		state.Statistics.Data.Remaining > 0 || state.Statistics.Data.Processed < 8<<20 {
		t.Errorf("%+v, %+v", now, state)
	}

	onlyOn(t, f, vm.UUID, target)
	nothingOn(t, l, "kvm1", nvram, tpm)

	if xml := l.Virsh(t, target, "dumpxml", "--security-info", vm.UUID); !strings.Contains(xml, "passwd='secret12'") {
		t.Errorf("its screen has lost its password:\n%s", xml)
	}

	for i, name := range files {
		if after := checksum(t, l, target, name); after != before[i] {
			t.Errorf("%s: %s on %s, was %s", name, after, target, before[i])
		}
	}

	if copied := permissions(target); copied != owned {
		t.Errorf("modes and owners on %s are\n%swere\n%s", target, copied, owned)
	}

	if kept := checksum(t, l, "kvm1", file); kept != before[0] {
		t.Errorf("the source's disk is %s, was %s", kept, before[0])
	}

	l.Virsh(t, target, "start", vm.UUID)

	if used := permissions(target); strings.Contains(used, "997:996") {
		t.Errorf("while the VM runs, the owners are\n%s", used)
	}

	l.Virsh(t, target, "destroy", vm.UUID)

	// What was kept at the first host is never overwritten. Only the move itself sees it: no pool covers it.
	_, state, err = f.Move(t.Context(), vm.UUID, lastOf(now), "kvm1", migration.Options{})
	if !errors.Is(err, ErrBlocked) || !strings.Contains(fmt.Sprint(err), migration.DiskPathTaken) ||
		!strings.Contains(err.Error(), file) || !state.Start.IsZero() {
		t.Errorf("moving it back: %+v, %v", state, err)
	}

	onlyOn(t, f, vm.UUID, target)

	if kept := checksum(t, l, "kvm1", file); kept != before[0] {
		t.Errorf("the file that was there is %s, was %s", kept, before[0])
	}

	l.Run(t, "kvm1", "rm", file)

	// And back, without leaving disks behind.
	remove := migration.Options{KeepSourceDisks: new(false)}
	if now, _, err = f.Move(t.Context(), vm.UUID, lastOf(now), "kvm1", remove); err != nil || now.Host != "kvm1" {
		t.Errorf("moving it back: %+v, %v", now, err)
	}

	nothingOn(t, l, target, file, nvram, tpm)

	l.Virsh(t, "kvm1", "start", vm.UUID)
	l.Virsh(t, "kvm1", "destroy", vm.UUID)
}

// A move that breaks while it copies leaves the VM as it was. What could not be removed from the target then is
// removed by the next attempt, which succeeds.
func TestLab_coldMoveThatBreaks(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"cancelled", "target's daemon killed", "killed", "disk added by hand"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			target := l.StartHost(t)
			undo := func() {}
			disturbed := make(chan struct{})

			var (
				vm   *inventory.VM
				file string
			)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			disturb := map[string]func(){
				"cancelled": cancel, "target's daemon killed": func() { undo = l.KillLibvirtd(t, target) }, "killed": func() {},
				"disk added by hand": func() {
					l.Run(t, "kvm1", "truncate", "-s", "1M", file+"-more")
					l.Virsh(t, "kvm1", "attach-disk", vm.UUID, file+"-more", "vdz", "--config")
				},
			}[name]
			way := sluice(t, target, 4<<20, func() {
				disturb()
				close(disturbed)
			})
			f := labFleet(t, l, t.Name(), func(host string, hc *inventory.HostConfig) {
				if host == target.Name {
					hc.URI = "qemu+unix:///system?socket=" + way
				}
			})
			dir := directory(t, l, "kvm1", target.Name)
			vm, file = resting(t, f, l, dir, 96, nil)
			before := checksum(t, l, "kvm1", file)

			if name == "killed" {
				interrupted(t, l, vm, target, file)
				updated(t, l, vm)
			} else {
				now, state, err := f.Move(ctx, vm.UUID, lastOf(vm), target.Name, migration.Options{})
				t.Log(err)

				plane := migration.PlaneData
				if name == "disk added by hand" {
					plane = migration.PlaneControl
				}

				if err == nil || now == nil || now.Host != "kvm1" || !state.Failed || state.FailurePlane != plane {
					t.Errorf("%+v, %+v, %v", now, state, err)
				}

				fleettest.Await(t, disturbed)
				undo()
			}

			if name == "cancelled" {
				nothingOn(t, l, target.Name, file)
			}

			now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target.Name, migration.Options{})
			if err != nil || now.Host != target.Name || len(now.Metadata.Copies) > 0 || state.Failed {
				t.Fatalf("the next attempt: %+v, %+v, %v", now, state, err)
			}

			onlyOn(t, f, vm.UUID, target.Name)

			if after := checksum(t, l, target.Name, file); after != before {
				t.Errorf("the disk is %s, was %s", after, before)
			}

			if out := l.Virsh(t, target.Name, "pool-list", "--name"); strings.Contains(out, "virtfleet-") {
				t.Errorf("pools left: %s", out)
			}
		})
	}
}

// A VM that a user starts and stops again between the copy of its files and the handover stays where it has what its
// guest wrote. The move waits in between for whoever places VMs on the target, which may be a run that was killed.
func TestLab_coldMoveOfAVMThatRanMeanwhile(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	target := l.StartHost(t)
	f, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	vm, file := resting(t, f, l, directory(t, l, "kvm1", target.Name), 1, nil)

	fleettest.Listen(f, &onLog{Message: "copying", Do: func() {
		_, placed, err := bob.Lock(t.Context(), bob.Host(target.Name), "placement", "a test")
		if err != nil {
			t.Error(err)

			return
		}

		fleettest.Listen(f, &onLog{Message: "waiting for another run's lease", Do: func() {
			defer placed()

			l.Virsh(t, "kvm1", "start", vm.UUID)
			l.Virsh(t, "kvm1", "destroy", vm.UUID)
			l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 64k", file) // For its guest.
		}})
	}})

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target.Name, migration.Options{})
	if !errors.Is(err, libvirt.ErrBusy) || now == nil || now.Host != "kvm1" || !state.Failed {
		t.Errorf("%+v, %+v, %v; want that it stays", now, state, err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")
	nothingOn(t, l, target.Name, file)
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", file)
}

// A disk that other VMs' disks are based on, such as that of a template, stays at the source, also where copied disks
// are to be removed there.
func TestLab_moveKeepsWhatOthersAreBasedOn(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	target := l.StartHost(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", target.Name)
	vm, file := resting(t, f, l, dir, 1, nil)
	clone := dir + "/clones/top.qcow2"

	l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf(`mkdir %[1]s/clones && cd %[1]s/clones &&
		qemu-img create -q -f qcow2 -b %[2]s -F qcow2 %[1]s/clones/middle.qcow2 &&
		qemu-img create -q -f qcow2 -b %[1]s/clones/middle.qcow2 -F qcow2 top.qcow2`, dir, file))

	name := vm.Name + "-clone"
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory>65536</memory>
		<os><type arch="x86_64" machine="q35">hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
		<source file="%s"/><target dev="vda"/></disk></devices></domain>`, name, clone))

	remove := migration.Options{KeepSourceDisks: new(false)}

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target.Name, remove)
	if err != nil || now.Host != target.Name {
		t.Fatalf("%+v, %v", now, err)
	}

	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "read -q 1M 64k", clone)

	usersOfFiles(t, l, f, target.Name, dir, name)
}

// usersOfFiles: a file isn't used by a VM that has one whose name is longer, nor by itself if its base has its name. It
// is used by what is based on it through a symbolic link, and may be used by what can't be read.
func usersOfFiles(t *testing.T, l *lab.Lab, f *Fleet, host, dir, name string) {
	t.Helper()

	images, vms, asleep := dir+"/images", dir+"/vms", dir+"/asleep"
	file := vms + "/web.qcow2"

	l.Run(t, host, "sh", "-ec", fmt.Sprintf(`mkdir %[1]s %[2]s %[3]s; ln -s images %[4]s/link
		qemu-img create -q -f raw %[1]s/web.qcow2 1M
		qemu-img create -q -f qcow2 -b %[1]s/web.qcow2 -F raw %[5]s
		qemu-img create -q -f qcow2 -b %[4]s/link/web.qcow2 -F raw %[5]s2`, images, vms, asleep, dir, file))

	has := func(name, file string) {
		t.Helper()
		l.RemoveDomain(t, name)
		l.Define(t, host, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory>65536</memory>
			<os><type arch="x86_64" machine="q35">hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/>
			<source file="%s"/><target dev="vda"/></disk></devices></domain>`, name, file))
	}

	has(name+"-user", file+"2")

	users := migration.UsersOn(f.Host(host).Conn)

	for of, want := range map[string]string{
		file: "", file + "2": fmt.Sprintf("virtual machine %q has it", name+"-user"),
		images + "/web.qcow2": file + "2 is based on it",
	} {
		if got, err := users.Of(t.Context(), of); err != nil || got != want {
			t.Errorf("the user of %s is %q, %v; want %q", of, got, err, want)
		}
	}

	l.Virsh(t, host, "pool-define-as", name, "dir", "--target", asleep)
	has(name+"-asleep", asleep+"/disk.qcow2")

	if got, err := migration.UsersOn(f.Host(host).Conn).Of(t.Context(), file); err != nil ||
		!strings.Contains(got, asleep+"/disk.qcow2") {
		t.Errorf("while what a VM has can't be read, the user of %s is %q, %v", file, got, err)
	}

	l.Virsh(t, host, "pool-undefine", name)
}

// interrupted leaves behind what a run does that is killed while it copies. The source's definition counts.
func interrupted(t *testing.T, l *lab.Lab, vm *inventory.VM, target *lab.Host, file string) {
	t.Helper()

	record := migration.State{
		SourceHost: "kvm1", TargetHost: target.Name, Start: time.Now(), Method: migration.MethodCold,
		Phase: migration.PhasePreparingTarget,
	}.Record("", "a run that was killed")
	m := vm.Metadata.WithMigration(record)
	m.Copies = []domain.Copy{{Host: "another name", HostUUID: target.HostUUID, Path: file, FromUUID: vm.HostUUID}}

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	l.Run(t, target.Name, "sh", "-c", "echo half of it >"+file)
}

// A run that is killed after it made a file on the target, and before it noted that, has recorded what it was about to
// make: the next run knows the file by its length, and removes it. Another file under that path stays, whatever was
// recorded.
func TestLab_coldMoveKilledBeforeItNotedAFile(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	log := &onLog{Message: "copying"}
	f := labFleet(t, l, t.Name(), nil)
	listen(f, log)
	dir := directory(t, l, "kvm1", "kvm2")
	vm, file := resting(t, f, l, dir, 8, nil)
	before := checksum(t, l, "kvm1", file)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var begun domain.Metadata

	log.Do = func() {
		defer cancel()

		definition, err := domain.Parse(l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID))
		if err != nil {
			t.Error(err)

			return
		}

		begun = definition.Metadata()
	}

	if _, _, err := f.Move(ctx, vm.UUID, lastOf(vm), "kvm2", migration.Options{}); err == nil {
		t.Fatal("the move was not broken off")
	}

	if len(begun.Copies) != 1 || !begun.Copies[0].Creating || begun.Copies[0].Bytes == 0 || begun.Copies[0].Path != file {
		t.Fatalf("before the file was made these were recorded: %+v", begun.Copies)
	}

	kill := func(leave string) {
		t.Helper()

		now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
		if err != nil {
			t.Fatal(err)
		}

		if _, err := records.WriteMetadata(t.Context(), now, begun); err != nil {
			t.Fatal(err)
		}

		l.Run(t, "kvm2", "sh", "-c", leave)
	}

	kill("echo mine >" + file)

	_, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, ErrBlocked) || !strings.Contains(fmt.Sprint(err), migration.DiskPathTaken) {
		t.Errorf("where another has made a file: %v", err)
	}

	if out := l.Run(t, "kvm2", "cat", file); out != "mine\n" {
		t.Errorf("the file that was there is %q", out)
	}

	l.Run(t, "kvm2", "rm", file)
	kill(fmt.Sprintf("truncate -s %d %s", begun.Copies[0].Bytes, file))

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" || len(now.Metadata.Copies) > 0 {
		t.Fatalf("the next run: %+v, %v", now, err)
	}

	onlyOn(t, f, vm.UUID, "kvm2")

	if after := checksum(t, l, "kvm2", file); after != before {
		t.Errorf("the disk is %s, was %s", after, before)
	}
}

// updated changes the VM by a run that doesn't know the target, and so can't remove what is there.
func updated(t *testing.T, l *lab.Lab, vm *inventory.VM) {
	t.Helper()

	_, err := ownFleet(t, "alice", l.Host(vm.Host)).Update(t.Context(), vm.UUID, lastOf(vm), placement.Desired{
		Spec: *vm.PersistentSpec,
		Metadata: domain.Metadata{
			Host: vm.Host, RunStrategy: vm.Metadata.RunStrategy, Labels: map[string]string{"updated": "yes"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A run that is killed when all is copied and defined leaves two VMs. Only a person can say which counts:
// neither loses a file.
func TestLab_coldMoveThatLeavesTwo(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	target := l.StartHost(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", target.Name)
	vm, file := resting(t, f, l, dir, 1, nil)
	before := checksum(t, l, "kvm1", file)
	interrupted(t, l, vm, target, file)
	l.Define(t, target.Name, vm.Entry.PersistentXML)
	there := checksum(t, l, target.Name, file)

	_, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target.Name, migration.Options{})
	if !errors.Is(err, inventory.ErrAmbiguous) {
		t.Errorf("the next attempt: %v", err)
	}

	if got := checksum(t, l, "kvm1", file); got != before {
		t.Errorf("the source's disk is %s, was %s", got, before)
	}

	if got := checksum(t, l, target.Name, file); got != there {
		t.Errorf("the target's disk is %s, was %s", got, there)
	}

	l.Virsh(t, target.Name, "undefine", vm.UUID)

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), target.Name, migration.Options{})
	if err != nil || now.Host != target.Name || len(now.Metadata.Copies) > 0 || state.Failed {
		t.Fatalf("once a person has decided: %+v, %+v, %v", now, state, err)
	}

	if after := checksum(t, l, target.Name, file); after != before {
		t.Errorf("the disk is %s, was %s", after, before)
	}
}

// A file that is there already, another read-only medium, a directory that is missing, an image on top of another and a
// disk that doesn't fit are told before anything is changed; what fills the disk meanwhile fails the copy, and leaves
// nothing.
func TestLab_coldMoveIsRefused(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	log := &onLog{Message: "copying"}
	f := labFleet(t, l, t.Name(), nil)
	listen(f, log)
	dir := directory(t, l, "kvm1", "kvm2")
	medium := directory(t, l, "kvm1", "kvm2") + "/medium.qcow2"
	burn := func(host string, pattern int) {
		t.Helper()
		l.Run(t, host, "sh", "-ec", fmt.Sprintf(`rm -f %[1]s; qemu-img create -q -f qcow2 %[1]s 1M
			qemu-io -f qcow2 -c 'write -q -P %[2]d 0 64k' %[1]s`, medium, pattern))
	}
	burn("kvm1", 1)
	burn("kvm2", 2)

	vm, file := resting(t, f, l, dir, 24, func(d *placement.Desired) {
		d.Spec.Disks["medium"] = domain.Disk{
			Source: domain.DiskSource{File: medium}, Format: "qcow2", Device: "cdrom", ReadOnly: new(true),
		}
	})
	another := checksum(t, l, "kvm2", medium)

	// Of the same format and sizes it is seen only when the beginnings are compared.
	_, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), migration.DiskPathTaken) ||
		!strings.Contains(err.Error(), medium) || !state.Start.IsZero() {
		t.Errorf("another medium: %v", err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")

	if now := checksum(t, l, "kvm2", medium); now != another {
		t.Errorf("the medium that was there is %s, was %s", now, another)
	}

	burn("kvm2", 1)
	l.Run(t, "kvm2", "rmdir", dir)

	refused := func(what string, reasons ...string) {
		t.Helper()

		_, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
		for _, reason := range append(reasons, file, dir) {
			if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), reason) || !state.Start.IsZero() {
				t.Errorf("%s: %v; want %s", what, err, reason)
			}
		}

		onlyOn(t, f, vm.UUID, "kvm1")
	}

	_, _, err = f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), medium) {
		t.Errorf("without the directory: %v", err)
	}

	l.Run(t, "kvm2", "mkdir", dir)
	l.Run(t, "kvm2", "sh", "-c", "echo mine >"+file)
	refused("a file", migration.DiskPathTaken)

	if out := l.Run(t, "kvm2", "cat", file); out != "mine\n" {
		t.Errorf("the file that was there is %q", out)
	}

	// Without the file at the source, that one may be all that the VM has: nothing advises to remove it.
	l.Run(t, "kvm1", "mv", file, file+".away")

	pool := lab.Name(t)
	l.Virsh(t, "kvm2", "pool-create-as", pool, "dir", "--target", dir)

	order := move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: "kvm2"}
	asking := labFleet(t, l, t.Name(), askingForFiles(l))
	problems, checkErr := asking.CheckMove(t.Context(), order, nil)
	_, _, err = asking.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})

	for what, said := range map[string]string{
		"a move": fmt.Sprint(err), "a check": fmt.Sprintf("%v %+v", checkErr, problems),
	} {
		if !strings.Contains(said, "perhaps as the only copy") || !strings.Contains(said, "Don't remove it") ||
			strings.Contains(said, "remove it there") {
			t.Errorf("%s of a VM whose disk only the target has: %s", what, said)
		}
	}

	l.Virsh(t, "kvm2", "pool-destroy", pool)
	l.Run(t, "kvm1", "mv", file+".away", file)
	l.Run(t, "kvm2", "rm", file)
	l.Run(t, "kvm2", "mount", "-t", "tmpfs", "-o", "size=16m", "none", dir)

	_, _, err = f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), migration.InsufficientStorage) ||
		!strings.Contains(err.Error(), "virsh pool-refresh") {
		t.Errorf("without room: %v", err)
	}

	l.Run(t, "kvm2", "mount", "-o", "remount,size=40m", dir)

	log.Do = func() { l.Run(t, "kvm2", "dd", "if=/dev/zero", "of="+dir+"/other", "bs=1M", "count=30", "status=none") }

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, move.ErrNotMoved) || !strings.Contains(err.Error(), "No space left") || !state.Failed ||
		now == nil || now.Host != "kvm1" || len(now.Metadata.Copies) > 0 {
		t.Errorf("a full disk: %+v, %+v, %v", now, state, err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")

	if left := l.Run(t, "kvm2", "ls", dir); left != "other\n" {
		t.Errorf("left on kvm2: %s", left)
	}

	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", file, "-F", "qcow2", dir+"/top.qcow2")
	l.Run(t, "kvm1", "sh", "-c", "mv "+file+" "+file+".base && qemu-img rebase -u -f qcow2 -b "+file+".base -F qcow2 "+dir+
		"/top.qcow2 && mv "+dir+"/top.qcow2 "+file)
	refused("an overlay", "chains of images", file+".base")
}

// A VM that is started while it is copied stays where it is.
func TestLab_coldMoveOfAVMThatIsStarting(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	log := &onLog{Message: "copying"}
	f := labFleet(t, l, t.Name(), nil)
	listen(f, log)
	dir := directory(t, l, "kvm1", "kvm2")
	vm, file := resting(t, f, l, dir, 32, nil)

	log.Do = func() { l.Virsh(t, "kvm1", "start", vm.UUID) }

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if !errors.Is(err, libvirt.ErrBusy) || now == nil || now.Host != "kvm1" || !now.Active ||
		len(now.Metadata.Copies) > 0 {
		t.Errorf("%+v, %v", now, err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")
	nothingOn(t, l, "kvm2", file)
}
