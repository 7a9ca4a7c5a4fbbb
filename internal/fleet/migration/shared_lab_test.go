package migration

import (
	"bytes"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// The hosts see one directory, of which libvirt doesn't know: it refuses the migration until the directory is declared
// to be shared. Then nothing of it is copied or removed, whatever is said of disks that are not.
func TestLab_declaredFilesystemIsShared(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	dir := t.TempDir() // What isn't libvirt's own is the same on all hosts of the lab.
	file := path.Join(dir, "disk")
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", file, "16M")
	b := onFiles(t, l, l.Host("kvm1"), l.Host("kvm2"), "", "qcow2", file)
	written := b.scribble(t, b.source, "/dev/vda")

	// doubts says whether something is said of the disk, which is never certain.
	doubts := func(o Options) bool {
		blockers, err := CheckHosts(t.Context(), b.machine, b.source, b.target, o)
		if err != nil || len(Blocking(blockers)) > 0 {
			t.Errorf("preflight %+v, %v", blockers, err)
		}
		return slices.ContainsFunc(blockers, func(b Blocker) bool { return b.Reason == DisksNotLiveMigratable })
	}
	if !doubts(Options{}) {
		t.Error("not declared, the plan takes it for shared")
	}
	if state, err := b.run(t.Context(), t, Options{}, nil); !errors.Is(err, libvirt.ErrUnsafe) {
		t.Errorf("not declared: state %+v: %v", state, err)
	}

	for _, o := range []Options{
		{SharedFilesystems: []string{dir}}, {SharedDisks: []string{b.machine.Mobility.Disks[0].Key}},
	} {
		o.CopyStorage, o.KeepSourceDisks = CopyFull, new(false)
		if doubts(o) {
			t.Error("the plan doubts what was declared")
		}
		state, err := b.run(t.Context(), t, o, nil)
		if err != nil || state.Method != MethodLive || state.Statistics.Disk.Total > 0 {
			t.Fatalf("state %+v: %v", state, err)
		}
		b.runsOnlyOn(t, b.target, b.source)
		if read := b.inGuest(t, b.target, sum("/dev/vda")); read != written {
			t.Errorf("wrote %s, read %s", written, read)
		}
		written = b.scribble(t, b.target, "/dev/vda")
		b.source, b.target = b.target, b.source
		if b.machine, err = Inspect(t.Context(), b.source, b.machine.UUID, true); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("in the directory: %v, %v", entries, err)
	}
	noPools(t, l, dir, l.Host("kvm1"), l.Host("kvm2"))
}

// A declaration that isn't true is found out before the guest would find another disk on the target.
func TestLab_wrongDeclarationIsRefused(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm2")
	dir := directory(t, here, there)
	file := image(t, l, here, path.Join(dir, "disk"), "raw", "16M")
	other := bytes.Repeat([]byte("precious"), 2<<20)
	writeFile(t, there, file, other)
	b := onFiles(t, l, here, there, "", "raw", file)
	written := b.scribble(t, b.source, "/dev/vda")

	state, err := b.run(t.Context(), t, Options{SharedFilesystems: []string{dir}}, nil)
	blocked, ok := errors.AsType[*BlockedError](err)
	if !ok || len(blocked.Blockers) != 1 || blocked.Blockers[0].Reason != DisksNotLiveMigratable ||
		!strings.Contains(blocked.Error(), "doesn't appear on host") || state.FailurePlane != PlaneControl {
		t.Errorf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)
	if read := b.inGuest(t, b.source, sum("/dev/vda")); read != written {
		t.Errorf("wrote %s, read %s", written, read)
	}
	if !bytes.Equal(readFile(t, there, file), other) {
		t.Error("the target's file was changed")
	}
	if left := strings.TrimSpace(l.Run(t, here.Name, "ls", "-A", dir)); left != "disk" {
		t.Errorf("left at the source: %s", left)
	}
	noPools(t, l, dir, here, there)
}
