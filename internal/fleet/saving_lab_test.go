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

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest whose memory is being saved isn't forced off for being deaf meanwhile: the save ends by itself. Neither is
// one that runs on while its memory is written: libvirt refuses it a shutdown until then.
func TestLab_stopWaitsForASave(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	d := light(t, l, "saved", nil)
	d.Metadata.Host = "kvm1"
	stopWhile(t, f, l, create(t, f, l, d), func(d *libvirt.Domain, _ *libvirt.Job) bool {
		return d.State == libvirt.Paused && d.Reason == libvirt.ReasonSave
	}, inventory.OutcomeNotRunning, "save")
	stopWhile(t, f, l, unpinned(t, f, l, "noagent dirty=8"), func(d *libvirt.Domain, job *libvirt.Job) bool {
		return d.State == libvirt.Running && job != nil && job.Operation == libvirt.OperationDump
	}, inventory.OutcomeACPI, "dump", "--live")
}

// stopWhile stops a VM while a command of virsh writes its memory to a file.
func stopWhile(
	t *testing.T, f *Fleet, l *lab.Lab, vm *inventory.VM, begun func(*libvirt.Domain, *libvirt.Job) bool,
	want inventory.Outcome, command ...string,
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
	saved := exec.CommandContext(ctx, "virsh", args...)

	var said strings.Builder

	saved.Stdout, saved.Stderr = &said, &said

	if err := saved.Start(); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)

	go func() { ended <- saved.Wait() }()

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

	outcome, err := f.Stop(ctx, vm, 10*time.Second)
	if err != nil || outcome != want {
		t.Errorf("stopped: %q, %v", outcome, err)
	}

	drain() // Or the save never ends, if Stop didn't wait for it.

	if err := fleettest.Await(t, ended); err != nil {
		t.Errorf("the save: %v: %s", err, said.String())
	}

	_ = reader.Close()

	if err := fleettest.Await(t, read); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading what is saved: %v", err)
	}

	if now, err := vm.On.Conn.Domain(t.Context(), vm.UUID); err != nil || now.Active() ||
		(now.Reason == "Saved") != (want == inventory.OutcomeNotRunning) {
		t.Errorf("after the save: %+v, %v", now, err)
	}
}
