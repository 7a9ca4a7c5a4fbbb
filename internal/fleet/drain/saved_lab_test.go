package drain_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A guest whose memory a user writes to a file while a drain shuts it down is neither moved nor booted afresh, by this
// try or the next one: the file would become dangerous. The user continues the guest from it.
func TestLab_drainLeavesWhatWasSavedMeanwhile(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)

	for _, method := range []string{evacuation.MethodCold, evacuation.MethodShutdown} {
		d := light(t, l, "saved", nil)
		d.Metadata.TerminationGracePeriod = new(5 * time.Minute)
		vm := create(t, alone, l, d)
		file := "/var/lib/libvirt/" + vm.Name + ".save"

		t.Cleanup(func() { _ = os.Remove(from.Path(file)) })
		listen(f, &onLog{Message: "shutting down guest", Do: func() { l.Virsh(t, from.Name, "save", vm.UUID, file) }})

		evicts := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Method: method, Target: to.Name},
		})

		if _, err := evicts.Try(t.Context(), 0, evacuation.Rule{}); !errors.Is(err, inventory.ErrBusy) {
			t.Errorf("%s: while it is saved: %v", method, err)
		}

		if _, err := evicts.Try(t.Context(), 0, evacuation.Rule{}); method == evacuation.MethodCold &&
			!errors.Is(err, inventory.ErrBusy) {
			t.Errorf("%s: once it is saved: %v", method, err)
		}

		now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
		if err != nil || now.Host != from.Name || !now.SavedToFile() {
			t.Fatalf("%s: %+v, %v", method, now, err)
		}

		l.Virsh(t, from.Name, "restore", file)
		l.Virsh(t, from.Name, "destroy", vm.UUID)
	}
}
