package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// precious are files that are the same on all hosts of the lab, and have to stay what they are.
type precious map[string]os.FileInfo

func see(t *testing.T, files ...string) precious {
	t.Helper()

	p := make(precious)

	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}

		p[file] = info
	}

	return p
}

// untouched fails the test unless the files are the very same, and nothing was written to them.
func (p precious) untouched(t *testing.T) {
	t.Helper()

	for file, before := range p {
		now, err := os.Stat(file)
		if err != nil || !os.SameFile(before, now) || !now.ModTime().Equal(before.ModTime()) || now.Size() != before.Size() {
			t.Errorf("%s was touched: %+v, %v", file, now, err)
		}
	}
}

// A VM that is off leaves what hosts share where it is, whether declared of a disk or of a directory, and takes
// the rest along. Neither a move that fails nor what is left of one that was killed costs it a file: there is one only.
func TestLab_coldMoveLeavesSharedFiles(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	log := &onLog{Message: "moving definition"}
	f := labFleet(t, l, t.Name(), nil)
	listen(f, log)
	dir := t.TempDir() // What isn't libvirt's own is the same on all hosts of the lab.
	vm, root := resting(t, f, l, dir, 1, func(d *placement.Desired) { d.Spec.Firmware.Type = new("efi") })
	base, nvram := filepath.Join(dir, "base"), filepath.Join(dir, "VARS.fd")
	l.Run(t, "kvm1", "sh", "-c", "mv "+root+" "+base+" && qemu-img create -q -f qcow2 -b "+base+" -F qcow2 "+root)

	xml := strings.Replace(vm.Entry.PersistentXML, "</os>", "<nvram>"+nvram+"</nvram></os>", 1)
	l.Define(t, "kvm1", xml)

	shared := migration.Options{SharedFilesystems: []string{dir}, KeepSourceDisks: new(false)}

	// A user starts it, which makes the variables, while the target has it already.
	log.Do = func() { l.Virsh(t, "kvm1", "start", vm.UUID) }

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", shared)
	if !errors.Is(err, libvirt.ErrBusy) || now == nil || now.Host != "kvm1" || !now.Active {
		t.Fatalf("%+v, %v", now, err)
	}

	onlyOn(t, f, vm.UUID, "kvm1")
	l.Virsh(t, "kvm1", "destroy", vm.UUID)

	// A disk that only its host has goes along.
	local := directory(t, l, "kvm1", "kvm2") + "/local.raw"
	l.Run(t, "kvm1", "qemu-img", "create", "-q", local, "1M")
	l.Define(t, "kvm1", strings.Replace(l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID), "</devices>",
		`<disk type="file"><driver name="qemu" type="raw"/><source file="`+local+`"/><target dev="vdz" bus="virtio"/></disk>
		</devices>`, 1))

	files := see(t, root, base, nvram)

	// A run that was killed when the hosts did not share it yet took it for a copy of its own.
	if vm, err = f.FindNow(t.Context(), vm.UUID, lastOf(vm)); err != nil {
		t.Fatal(err)
	}

	leaveRecord(t, f, vm, root, nvram)

	for _, to := range []string{"kvm2", "kvm1"} {
		// What isn't declared is another file for all that is known.
		_, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to, migration.Options{SharedDisks: []string{"root"}})
		if !errors.Is(err, ErrBlocked) || !strings.Contains(err.Error(), nvram) || strings.Contains(err.Error(), root) {
			t.Errorf("moving it to %s without a word of its variables: %v", to, err)
		}

		files.untouched(t)

		problems, err := f.CheckMove(t.Context(),
			MoveOrder{UUID: vm.UUID, Last: lastOf(vm), Target: to, Options: shared}, nil)
		said := fmt.Sprint(problems)

		if err != nil || slices.ContainsFunc(problems, func(p inventory.Problem) bool { return !p.Warning }) ||
			!strings.Contains(said, local) || strings.Contains(said, dir+"/") {
			t.Errorf("checking the move to %s: %+v, %v", to, problems, err)
		}

		// Another one was killed when the target had the definition, and nothing was to be copied.
		from := vm.Host
		record := migration.State{
			SourceHost: from, TargetHost: to, Start: time.Now(), Phase: migration.PhasePreparingTarget,
			Method: migration.MethodCold,
		}.Record("", "a run that was killed")

		if _, err := records.WriteMetadata(t.Context(), vm, vm.Metadata.WithMigration(record)); err != nil {
			t.Fatal(err)
		}

		l.Define(t, to, l.Virsh(t, from, "dumpxml", "--inactive", vm.UUID))

		now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to, shared)
		if err != nil || now.Host != to || now.Active || len(now.Metadata.Copies) > 0 ||
			state.Method != migration.MethodCold || state.Statistics.Data.Total != 1<<20 {
			t.Fatalf("moving it to %s: %+v, %+v, %v", to, now, state, err)
		}

		onlyOn(t, f, vm.UUID, to)
		files.untouched(t)
		nothingOn(t, l, from, local)
		checksum(t, l, to, local)

		vm = now
	}

	left, err := os.ReadDir(dir)
	if err != nil || len(left) != len(files) {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

// What is declared to be shared and isn't is found out before anything is done, and neither host's file is touched. So
// is a disk that is shared and whose base isn't.
func TestLab_coldMoveOfWhatIsNotShared(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	dir := directory(t, l, "kvm1", "kvm2")
	vm, file := resting(t, f, l, dir, 1, nil)
	before := checksum(t, l, "kvm1", file)
	l.Run(t, "kvm2", "sh", "-c", "echo precious >"+file)

	refused := func(why string, o migration.Options) {
		t.Helper()

		_, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", o)

		blocked, ok := errors.AsType[*migration.BlockedError](err)
		if !ok || len(blocked.Blockers) != 1 || blocked.Blockers[0].Attribute != "disks.root" ||
			!strings.Contains(blocked.Error(), why) || !state.Start.IsZero() {
			t.Errorf("%+v, %v; want %s", state, err, why)
		}

		onlyOn(t, f, vm.UUID, "kvm1")
	}

	refused("doesn't appear on host", migration.Options{SharedDisks: []string{"root"}, KeepSourceDisks: new(false)})

	if now := checksum(t, l, "kvm1", file); now != before {
		t.Errorf("the source's disk is %s, was %s", now, before)
	}

	if there := l.Run(t, "kvm2", "cat", file); there != "precious\n" {
		t.Errorf("the target's file is %q", there)
	}

	for _, host := range []string{"kvm1", "kvm2"} {
		if left := strings.TrimSpace(l.Run(t, host, "ls", "-A", dir)); left != filepath.Base(file) {
			t.Errorf("left on %s: %s", host, left)
		}
	}

	top := filepath.Join(t.TempDir(), "top.qcow2")
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", file, "-F", "qcow2", top)
	l.Define(t, "kvm1", strings.ReplaceAll(vm.Entry.PersistentXML, file, top))
	refused("is based on "+file+", and that is another file on host", migration.Options{SharedDisks: []string{"root"}})
	see(t, top)

	// What pools tell the plan says.
	image := l.Image(t, "kvm1", lab.Name(t), "raw", 1<<20)
	l.Define(t, "kvm1", strings.ReplaceAll(vm.Entry.PersistentXML, file, image))

	planned := func(why string, certain bool) {
		t.Helper()

		problems, err := f.CheckMove(t.Context(), MoveOrder{
			UUID: vm.UUID, Last: lastOf(vm), Target: "kvm2", Options: migration.Options{SharedDisks: []string{"root"}},
		}, nil)
		if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, why) || problems[0].Warning == certain {
			t.Errorf("%+v, %v; want %s", problems, err, why)
		}
	}

	planned("which the storage pools of host \"kvm2\" don't show", false)
	l.Image(t, "kvm2", filepath.Base(image), "raw", 2<<20)
	planned("which is another file on host \"kvm2\"", true)
}
