package drain

import (
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// A drain first avoids all hosts that are drained, and if that is no way, those of earlier turns. One that still waits
// for another maintenance of its host has no turn.
func TestUnderWay(t *testing.T) {
	t.Parallel()

	var u underWay

	waits, endWait := u.announce("waits")
	first, end := u.announce("first")
	second, _ := u.announce("second")

	u.begin(first)
	u.begin(second)

	check := func(when string, own *turn, host string, want bool) {
		t.Helper()

		if got := u.blocker(host, own) != nil; got != want {
			t.Errorf("%s, host %q is avoided: %v, want %v", when, host, got, want)
		}
	}

	for _, host := range []string{"waits", "first", "second"} {
		check("in a plan", nil, host, true)
	}

	check("in a plan", nil, "other", false)

	if u.avoidOnlyEarlier(second) {
		t.Error("the second has avoided nothing yet")
	}

	check("of the first", first, "second", true)
	check("of the first", first, "waits", true)
	check("of the second", second, "first", true)
	check("of the second", second, "waits", false)

	if !u.avoidOnlyEarlier(first) {
		t.Error("the first has avoided the others")
	}

	check("once it can't continue", first, "second", false)
	check("once it can't continue", first, "waits", false)
	u.begin(waits)
	check("of the last", waits, "first", true)
	end()
	check("after the end of the first", second, "first", false)
	check("after the end of the first", waits, "second", true)
	endWait()
	check("at the end", nil, "waits", false)
}

// Of two hosts that have only each other as targets and are drained at the same time, the one that had its turn first
// may use the other one, and not the other way round.
func TestFindSteps_drainedTogether(t *testing.T) {
	t.Parallel()

	for _, given := range []bool{false, true} {
		configs := map[string]inventory.HostConfig{}

		for _, name := range []string{"one", "two"} {
			configs[name] = inventory.HostConfig{URI: fleettest.BuiltInURI(t, "<domain type='test'><name>"+name+
				"</name><uuid>"+uuid.NewString()+"</uuid><memory>1024</memory><os><type>hvm</type></os></domain>")}
		}

		dr := drainerOf(t, configs)
		runs := map[string]*drainRun{}

		for _, name := range []string{"one", "two"} {
			runs[name] = Begun(dr, Drain{Host: name})
			runs[name].turn, _ = dr.underWay.announce(name)
			dr.underWay.begin(runs[name].turn)

			if given {
				runs[name].Steps = []evacuation.Step{}
			}
		}

		for name, other := range map[string]string{"one": "two", "two": "one"} {
			if err := runs[name].findSteps(t.Context(), nil); err != nil || len(runs[name].in.VMs) != 1 {
				t.Fatal(err)
			}

			avoided := false
			for _, b := range runs[name].in.VMs[0].LiveBlockers[other] {
				avoided = avoided || b.Reason == migration.HostCordoned
			}

			if avoided != (name == "two") {
				t.Errorf("steps given: %v. The drain of %q avoids the other host: %v", given, name, avoided)
			}
		}
	}
}
