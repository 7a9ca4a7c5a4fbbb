package fleet

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The plan of a drain counts what goes along, as far as it is written to: the memory and the disks of a VM that is
// moved with them while it runs, and only the files of one that is moved while it is off.
func TestLab_planCountsWhatIsCopied(t *testing.T) {
	t.Parallel()

	const capacity, written, memory = 16 << 20, 4 << 20, 32 << 20

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	with := func(name, format string, change func(*placement.Desired)) {
		d := light(t, l, name, map[string]string{"kind": name})
		image := l.Image(t, from.Name, d.Spec.Name+"."+format, format, capacity)
		l.Run(t, from.Name, "qemu-io", "-f", format, "-c", fmt.Sprintf("write -P 7 0 %d", written), image)
		d.Spec.Disks["data"] = domain.Disk{Source: domain.DiskSource{File: image}, Format: format}
		change(&d)
		create(t, alone, l, d)
	}
	nat := func(d *placement.Desired) { d.Spec.Interfaces["nat"] = domain.Interface{Network: "default"} }

	with("block", "qcow2", func(*placement.Desired) {})
	with("raw", "raw", func(*placement.Desired) {})
	with("cold", "qcow2", nat) // Each host's own network, so it can't be moved while it runs.
	with("off", "raw", func(d *placement.Desired) { d.Metadata.RunStrategy = "Manual" })
	create(t, alone, l, light(t, l, "live", nil))

	if _, err := f.EvictionPolicies().Put(t.Context(), evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate, Fallback: evacuation.ColdMigrate,
		Options: migration.Options{CopyStorage: migration.CopyFull},
	}); err != nil {
		t.Fatal(err)
	}

	plan, err := f.PlanEvacuation(t.Context(), from.Name, EvacuationQuery{MoveStopped: true})
	if err != nil {
		t.Fatal(err)
	}

	if len(plan.Steps) != 5 {
		t.Fatalf("steps %+v; want five", plan.Steps)
	}

	for _, s := range plan.Steps {
		name := s.Name[7:] // Behind what makes it unique, see drainer.
		want := map[string]struct {
			method      string
			least, most uint64
		}{
			"block": {evacuation.MethodLive, memory + written, memory + capacity},
			"raw":   {evacuation.MethodLive, memory + written, memory + capacity},
			"cold":  {evacuation.MethodCold, written, capacity},
			"off":   {evacuation.MethodCold, written, capacity},
			"live":  {evacuation.MethodLive, memory, memory},
		}[name]
		t.Logf("%s: %s, %d", name, s.Method, s.Transfer)

		if s.Method != want.method || s.Transfer < want.least || s.Transfer > want.most {
			t.Errorf("%s: %s of %d bytes (%v); want %s of %d to %d", name, s.Method, s.Transfer, s.Blockers, want.method,
				want.least, want.most)
		}
	}
}
