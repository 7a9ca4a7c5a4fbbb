package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest that panicked may be kept for its autopsy. It is found and listed like every other, and to be started again
// it is destroyed first.
func TestLab_panickedGuestIsReadAndStartedAgain(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	id, name := uuid.NewString(), lab.Name(t)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><uuid>%s</uuid><memory unit="MiB">192</memory>
  <os><type arch="x86_64" machine="q35">hvm</type><kernel>%s</kernel><initrd>%s</initrd>
    <cmdline>%s panic</cmdline></os><features><acpi/></features><on_crash>preserve</on_crash>
  <devices><panic model="isa"/><channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
  </devices></domain>`, name, id, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline))
	l.Virsh(t, "kvm1", "start", name)

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()

	vm, err := f.FindNow(ctx, id, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	waitAgent(t, f, vm)

	// The panic's driver comes a moment after the agent: without it the guest only hangs, so it is loaded before.
	command := `{"execute":"guest-exec","arguments":{"path":"/bin/sh","arg":["-c",` +
		`"until [ x$(cat /sys/module/pvpanic_mmio/initstate) = xlive ]; do sleep 1; done; sleep 1; ` +
		`echo c >/proc/sysrq-trigger"]}}`
	if _, err := vm.On.Conn.AgentCommand(ctx, id, command); err != nil {
		t.Fatal(err)
	}

	crashed, err := inventory.Await(ctx, vm, func(d *libvirt.Domain) bool {
		return d != nil && d.State == libvirt.Crashed
	})
	if err != nil || !crashed {
		t.Fatalf("the guest has not crashed: %v", err)
	}

	if vm, err = f.FindNow(ctx, id, inventory.LastKnown{}); err != nil {
		t.Fatal(err)
	}

	if !vm.Active || vm.Reason != "Panicked" || vm.LiveSpec == nil {
		t.Errorf("active %v, %s (%s), live definition %v", vm.Active, vm.State, vm.Reason, vm.LiveSpec != nil)
	}

	all, silent, err := f.List(ctx)
	if err != nil || len(silent) > 0 {
		t.Fatalf("the fleet can't be listed: %v, silent %v", err, silent)
	}

	listed := false
	for _, m := range all {
		listed = listed || m.UUID == id && m.VM != nil && m.VM.Status() == "Failed"
	}

	if !listed {
		t.Errorf("the VM is not among the %d that were listed", len(all))
	}

	if err := admitAndStart(f)(ctx, vm); err != nil {
		t.Fatal(err)
	}

	if vm, err = f.FindNow(ctx, id, inventory.LastKnown{}); err != nil || !vm.Running() {
		t.Errorf("after the start: %v, %v", vm.Status(), err)
	}
}

// admitAndStart returns what starts a VM whose host has room for it.
func admitAndStart(f *Fleet) func(context.Context, *inventory.VM) error {
	return func(ctx context.Context, vm *inventory.VM) error {
		held, permit, err := f.Admit(ctx, vm)
		if err != nil {
			return err
		}
		defer permit.Release()

		return f.Start(held, permit, vm)
	}
}
