package fleet

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest whose memory is being saved isn't forced off for being deaf meanwhile: the save ends by itself. Neither is
// one that runs on while its memory is written: libvirt refuses it a shutdown until then.
func TestLab_stopWaitsForASave(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	saving := func(d *libvirt.Domain, _ *libvirt.Job) bool {
		return d.State == libvirt.Paused && d.Reason == libvirt.ReasonSave
	}
	dumping := func(d *libvirt.Domain, job *libvirt.Job) bool {
		return d.State == libvirt.Running && job != nil && job.Operation == libvirt.OperationDump
	}
	stops := func(want inventory.Outcome) func(context.Context, *inventory.VM) {
		return func(ctx context.Context, vm *inventory.VM) {
			if outcome, err := f.Stop(ctx, vm, 10*time.Second); err != nil || outcome != want {
				t.Errorf("stopped: %q, %v", outcome, err)
			}
		}
	}
	d := light(t, l, "saved", nil)
	d.Metadata.Host = "kvm1"
	saved := create(t, f, l, d)

	whileWritten(t, f, l, saved, saving, stops(inventory.OutcomeNotRunning), "save")
	whileWritten(t, f, l, unpinned(t, f, l, "noagent dirty=8"), dumping, stops(inventory.OutcomeACPI), "dump", "--live")

	// What was saved can't be restored without the disks.
	if err := f.Host(saved.Host).Conn.StartDomain(t.Context(), saved.UUID); err != nil {
		t.Fatal(err)
	}

	whileWritten(t, f, l, saved, saving, func(ctx context.Context, vm *inventory.VM) {
		if _, err := f.Delete(ctx, vm.UUID, lastOf(vm), 0); !errors.Is(err, inventory.ErrBusy) {
			t.Errorf("deleted: %v", err)
		}
	}, "save")

	// The next run deletes it: it was off when that was planned.
	if _, err := f.Delete(t.Context(), saved.UUID, lastOf(saved), 0); err != nil {
		t.Error(err)
	}
}

// whileWritten does something while a command of virsh writes the memory of a VM to a file. What is done must wait for
// that to end. The VM is then off.
func whileWritten(
	t *testing.T, f *Fleet, l *lab.Lab, vm *inventory.VM, begun func(*libvirt.Domain, *libvirt.Job) bool,
	does func(context.Context, *inventory.VM), command ...string,
) {
	t.Helper()

	at := "/var/lib/libvirt/" + vm.Name + ".fifo"
	fifo := l.Host("kvm1").Path(at)

	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = os.Remove(fifo) })

	// What isn't read stays in the pipe, and the save takes as long.
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()

	args := append([]string{"--connect", l.Host("kvm1").SocketURI()}, append(command, vm.UUID, at)...)
	writes := exec.CommandContext(ctx, "virsh", args...)

	var said strings.Builder

	writes.Stdout, writes.Stderr = &said, &said

	if err := writes.Start(); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)

	go func() { ended <- writes.Wait() }()

	if _, err := inventory.Await(ctx, vm, func(d *libvirt.Domain) bool {
		job, _ := vm.On.Conn.Job(ctx, vm.UUID)

		return len(ended) > 0 || d != nil && begun(d, job)
	}); err != nil || len(ended) > 0 {
		t.Fatalf("the save has not begun: %v: %s", err, said.String())
	}

	vm, err = f.FindNow(ctx, vm.UUID, lastOf(vm))
	if err != nil || !vm.Active {
		t.Fatalf("%+v, %v", vm, err)
	}

	read := make(chan error, 1)
	drain := sync.OnceFunc(func() {
		go func() {
			_, err := io.Copy(io.Discard, reader)
			read <- err
		}()
	})
	listen(f, &onLog{Message: "waiting for the guest's memory to be written", Do: drain})

	does(ctx, vm)
	drain() // Or the save never ends, if it wasn't waited for.

	if err := fleettest.Await(t, ended); err != nil {
		t.Errorf("the save: %v: %s", err, said.String())
	}

	_ = reader.Close()
	_ = os.Remove(fifo)

	if err := fleettest.Await(t, read); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading what is saved: %v", err)
	}

	if now, err := vm.On.Conn.Domain(t.Context(), vm.UUID); err != nil || now.Active() ||
		(now.Reason == libvirt.ReasonSaved) != (command[0] == "save") {
		t.Errorf("after the save: %+v, %v", now, err)
	}
}

// A guest whose memory a user has written to a file, while it was to shut down for a restart, isn't booted afresh: what
// it writes then would make the file dangerous.
func TestLab_restartSeesThatItWasSaved(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	d := light(t, l, "saved", nil)
	d.Metadata.Host = "kvm1"
	d.Spec.Memory = domain.Memory{Size: new(uint64(128 << 20)), MaxSize: new(uint64(512 << 20))}
	d.Metadata.TerminationGracePeriod = new(5 * time.Minute)
	vm := create(t, f, l, d)
	file := "/var/lib/libvirt/" + vm.Name + ".save"

	listen(f, &onLog{Message: "shutting down guest", Do: func() { l.Virsh(t, "kvm1", "save", vm.UUID, file) }})
	t.Cleanup(func() { _ = os.Remove(l.Host("kvm1").Path(file)) })

	d.Spec.Memory.MaxSize, d.UpdatePolicy = new(uint64(1<<30)), placement.PolicyRestart

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if !errors.Is(err, inventory.ErrBusy) || now == nil || !now.SavedToFile() {
		t.Errorf("%+v, %v; want to be told that it was saved", now, err)
	}

	l.Virsh(t, "kvm1", "restore", file)

	d.Metadata.TerminationGracePeriod = new(time.Duration(0))

	if now, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d); err != nil || !now.Active ||
		*now.LiveSpec.Memory.MaxSize != 1<<30 {
		t.Errorf("%+v, %v", now, err)
	}
}
