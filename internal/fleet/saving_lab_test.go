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

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest whose memory is being saved isn't forced off for being deaf meanwhile: the save ends by itself.
func TestLab_stopWaitsForASave(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "saved", nil)
	d.Metadata.Host = "kvm1"
	vm := create(t, f, l, d)
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

	saved := exec.CommandContext(ctx, "virsh", "--connect", l.Host("kvm1").SocketURI(), "save", vm.UUID, at)

	var said strings.Builder

	saved.Stdout, saved.Stderr = &said, &said

	if err := saved.Start(); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)

	go func() { ended <- saved.Wait() }()

	if _, err := inventory.Await(ctx, vm, func(d *libvirt.Domain) bool {
		return len(ended) > 0 || d != nil && d.State == libvirt.Paused && d.Reason == libvirt.ReasonSave
	}); err != nil || len(ended) > 0 {
		t.Fatalf("the save has not begun: %v: %s", err, said.String())
	}

	vm, err = f.FindNow(ctx, vm.UUID, lastOf(vm))
	if err != nil || vm.Status() != status.StatusPaused {
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

	outcome, err := f.Stop(ctx, vm, 0)
	if err != nil || outcome != inventory.OutcomeNotRunning {
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

	if now, err := vm.On.Conn.Domain(t.Context(), vm.UUID); err != nil || now.Reason != "Saved" {
		t.Errorf("after the save: %+v, %v", now, err)
	}
}
