package drain_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A guest whose memory a user writes to a file while a drain shuts it down is neither moved nor booted afresh, by this
// try, the next one, or the end of the maintenance: the file would become dangerous. The user continues the guest from
// it.
func TestLab_drainLeavesWhatWasSavedMeanwhile(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)

	// begin creates a VM and begins to evict it. Once its guest is to shut down, a user does something with it.
	begin := func(name, method string, does func(*inventory.VM)) (*inventory.VM, *drain.Run) {
		d := light(t, l, name, nil)
		d.Metadata.RunStrategy, d.Metadata.TerminationGracePeriod = "Always", new(5*time.Minute)
		vm := create(t, alone, l, d)

		listen(f, &onLog{Message: "shutting down guest", Do: func() { does(vm) }})

		return vm, drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Method: method, Target: to.Name},
		})
	}
	fileOf := func(vm *inventory.VM) string { return "/var/lib/libvirt/" + vm.Name + ".save" }
	stays := func(vm *inventory.VM) {
		t.Helper()

		now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
		if err != nil || now.Host != from.Name || !now.SavedToFile() {
			t.Fatalf("%+v, %v", now, err)
		}
	}

	for _, method := range []string{evacuation.MethodCold, evacuation.MethodShutdown} {
		vm, evicts := begin(method, method, func(vm *inventory.VM) {
			l.Virsh(t, from.Name, "save", vm.UUID, fileOf(vm))
		})

		t.Cleanup(func() { _ = os.Remove(from.Path(fileOf(vm))) })

		if _, err := evicts.Try(t.Context(), 0, evacuation.Rule{}); !errors.Is(err, inventory.ErrBusy) {
			t.Errorf("%s: while it is saved: %v", method, err)
		}

		stays(vm)

		// The next try of a shutdown finds it off, which is all that it wants.
		result, err := evicts.Try(t.Context(), 0, evacuation.Rule{})
		if off := result == hostrecord.ResultShutDown && err == nil; off != (method == evacuation.MethodShutdown) ||
			!off && !errors.Is(err, inventory.ErrBusy) {
			t.Errorf("%s: once it is saved: %q, %v", method, result, err)
		}

		stays(vm)

		if method == evacuation.MethodShutdown {
			endsMaintenance(t, f, from, vm)
			stays(vm)
		}

		l.Virsh(t, from.Name, "restore", fileOf(vm))
		l.Virsh(t, from.Name, "destroy", vm.UUID)
	}

	// One without a definition is gone once it is off.
	_, evicts := begin("gone", evacuation.MethodShutdown, func(vm *inventory.VM) {
		l.Virsh(t, from.Name, "undefine", vm.UUID)
		l.Virsh(t, from.Name, "destroy", vm.UUID)
	})

	if result, err := evicts.Try(t.Context(), 0, evacuation.Rule{}); err != nil || result != hostrecord.ResultShutDown {
		t.Errorf("one that is gone: %q, %v", result, err)
	}
}

// endsMaintenance ends the maintenance of a host that was drained of the VM by shutting it down. The plan and the end
// tell that the VM stays as it is.
func endsMaintenance(t *testing.T, f *fleet.Fleet, host *lab.Host, vm *inventory.VM) {
	t.Helper()

	step := hostrecord.RecordedStep{Result: hostrecord.ResultShutDown, Completed: true}
	step.UUID, step.Name, step.Method = vm.UUID, vm.Name, evacuation.MethodShutdown

	if err := f.ChangeRecord(t.Context(), f.Host(host.Name), func(r *hostrecord.Record) error {
		r.Cordon = &hostrecord.Cordon{ID: "m", Owner: "alice", Why: "new memory"}
		r.Evacuation = &hostrecord.Evacuation{Done: true, Steps: []hostrecord.RecordedStep{step}}

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	f.ForgetAll()

	if p, err := f.PlanRelease(t.Context(), host.Name, "m", true); err != nil || len(p.Restored) > 0 ||
		len(p.Unrestored) != 1 {
		t.Errorf("planned: %+v, %v", p, err)
	}

	if r, err := f.Release(t.Context(), host.Name, "m", drain.Restore{Wanted: true}); err != nil ||
		len(r.Unrestored) != 1 {
		t.Errorf("told: %+v, %v", r, err)
	}
}
