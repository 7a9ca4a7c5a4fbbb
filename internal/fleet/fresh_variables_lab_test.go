package fleet

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A change of firmware resets the variables once, whoever starts the VM: what its guest writes to them afterwards is
// kept at the next start, as after a drain.
func TestLab_variablesAreResetOnce(t *testing.T) {
	t.Parallel()

	const host = "kvm1"

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "fresh", nil)
	d.Metadata.Host, d.UpdatePolicy = host, placement.PolicyStage
	d.Spec.Firmware.Type, d.Spec.Firmware.SecureBoot = new("efi"), new(false)
	vm := create(t, f, l, d)

	d.Spec.Firmware.SecureBoot = new(true)

	vm, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || !vm.RestartRequired() {
		t.Fatalf("the change isn't staged: %v", err)
	}

	variables := "/var/lib/libvirt/qemu/nvram/" + vm.Name + "_VARS.fd"
	restart := func(whileOff string) {
		t.Helper()
		l.Virsh(t, host, "destroy", vm.UUID)
		l.Run(t, host, "sh", "-c", whileOff)

		if vm, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
			t.Fatal(err)
		}

		if err = admitAndStart(f)(t.Context(), vm); err != nil {
			t.Fatal(err)
		}

		if vm, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(text string) bool {
		t.Helper()

		return l.Run(t, host, "sh", "-c", fmt.Sprintf("grep -qa '%s' %s && echo yes || true", text, variables)) != ""
	}

	restart("")

	if !has("Microsoft Corporation") {
		t.Error("the VM has secure boot without the keys")
	}

	if vm.RestartRequired() || vm.Metadata.FreshNVRAM {
		t.Error("after the start, the next one is still to reset the variables")
	}

	restart(fmt.Sprintf("printf 'of the guest' | dd of=%s bs=1 seek=500000 conv=notrunc status=none", variables))

	if !has("of the guest") {
		t.Error("the variables that the guest had written are gone")
	}
}
