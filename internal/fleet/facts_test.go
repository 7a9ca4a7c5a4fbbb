package fleet

import (
	"context"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// What waits for a restart is told alike by the VM itself and by its conditions. New firmware variables wait for one,
// though both definitions of the VM are the same.
func TestVM_freshVariablesWaitForARestart(t *testing.T) {
	t.Parallel()

	f, vm := builtIn(t)
	metadata := vm.Metadata
	metadata.FreshNVRAM = true

	expect := func(what string, want status.ConditionStatus) *inventory.VM {
		t.Helper()

		vm, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		c := status.ConditionOf(vm.Facts(), status.RestartRequired)
		if c.Status != want || vm.RestartRequired() != (want == status.True) {
			t.Errorf("%s: the condition is %+v, the VM says %t", what, c, vm.RestartRequired())
		}

		if says := "firmware: the next start begins with new firmware variables"; want == status.True && c.Message != says {
			t.Errorf("%s: the condition says %q, want %q", what, c.Message, says)
		}

		return vm
	}

	if _, err := records.WriteMetadata(t.Context(), vm, metadata); err != nil {
		t.Fatal(err)
	}

	expect("off", status.False)

	if err := vm.On.Conn.StartDomain(t.Context(), vm.UUID); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := vm.On.Conn.DestroyDomain(context.WithoutCancel(t.Context()), vm.UUID, false); err != nil {
			t.Error(err)
		}
	})

	marked := expect("running", status.True)

	if _, err := records.WriteMetadata(t.Context(), marked, vm.Metadata); err != nil {
		t.Fatal(err)
	}

	expect("running with the variables that it is to have", status.False)
}
