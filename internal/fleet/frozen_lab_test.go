package fleet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// The environment of a process that runs stopper.
const (
	stopperUUID = "VIRTFLEET_TEST_STOPPER_UUID"
	stopperURI  = "VIRTFLEET_TEST_STOPPER_URI"
	// stopperGrace is over when the process was frozen for as long as a takeover takes.
	stopperGrace = 15 * time.Second
)

// stopper is a run of its own that shuts a VM down, and says how that went.
func stopper(uri, uuid string) error {
	f, err := New(Config{Hosts: map[string]inventory.HostConfig{"h": {URI: uri}}, Owner: "stopper"})
	if err != nil {
		return err
	}

	var outcome inventory.Outcome

	err = f.WithVMLocked(context.Background(), uuid, inventory.LastKnown{}, "stopping",
		func(ctx context.Context, vm *inventory.VM) error {
			var err error
			outcome, err = f.Stop(ctx, vm, stopperGrace)

			return err
		})
	fmt.Printf("outcome %q, error %v\n", outcome, err)

	return f.Close()
}

// A run that shuts a guest down is frozen. Another run takes over the lock, and finds the VM running, as it is to be.
// The first run is resumed after the grace period: it doesn't destroy the VM, whose lock it has lost.
func TestLab_frozenRunDestroysNothingWhenResumed(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	on := l.StartHost(t)
	f := ownFleet(t, "taker", on)
	vm := create(t, f, l, guest(l, lab.Name(t), "noagent noacpi"))

	var said strings.Builder

	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()

	frozen := exec.CommandContext(ctx, os.Args[0])
	frozen.Env = append(os.Environ(), stopperUUID+"="+vm.UUID,
		stopperURI+"=qemu+unix:///system?socket="+on.Path("/run/libvirt/libvirt-sock"))
	frozen.Stdout, frozen.Stderr = &said, &said

	if err := frozen.Start(); err != nil {
		t.Fatal(err)
	}

	h := f.Host(on.Name)

	awaitRenewedLock(t, h, vm.UUID) // The guest is asked to shut down before.

	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	err := f.WithVMLocked(t.Context(), vm.UUID, lastOf(vm), "keeping", func(_ context.Context, now *inventory.VM) error {
		if now.Status() != status.StatusRunning {
			t.Errorf("the run that took over finds it %s", now.Status())
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	if err := frozen.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}

	if !strings.Contains(said.String(), "taken over by another run") {
		t.Errorf("the run that woke up says: %s", said.String())
	}

	if d, err := h.Conn.Domain(t.Context(), vm.UUID); err != nil || d.State != libvirt.Running {
		t.Errorf("after it woke up the VM is %+v, %v", d, err)
	}
}

// awaitRenewedLock waits until a run has renewed the VM's lock. It has done more than to take the lock then.
func awaitRenewedLock(t *testing.T, h *inventory.Host, uuid string) {
	t.Helper()

	var first []byte

	lab.Await(t, "the VM's lock to be renewed", func() bool {
		s, err := h.Conn.OwnSecret(t.Context(), "virtfleet:lock:"+uuid)
		if err == nil && first == nil {
			first = s.Value
		}

		return err == nil && !bytes.Equal(s.Value, first)
	})
}
