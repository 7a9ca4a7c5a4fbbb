package exporter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
)

// TestAddHosts_drain: a host has a drain while it is under its maintenance. A maintenance that ended may leave steps
// recorded, to be continued by the next drain: nothing drains the host meanwhile.
func TestAddHosts_drain(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	cordon := &hostrecord.Cordon{ID: "m", Since: at}
	open := []hostrecord.RecordedStep{{}}
	for name, test := range map[string]struct {
		cordon *hostrecord.Cordon
		drain  hostrecord.Evacuation
		state  string
	}{
		"a run works on it":    {cordon, hostrecord.Evacuation{}, "draining"},
		"ended early":          {cordon, hostrecord.Evacuation{Ended: true}, "failed"},
		"drained":              {cordon, hostrecord.Evacuation{Done: true}, "drained"},
		"being ended":          {nil, hostrecord.Evacuation{Done: true, Releasing: "m"}, ""},
		"given up":             {nil, hostrecord.Evacuation{Abandoned: at}, ""},
		"given up, then began": {cordon, hostrecord.Evacuation{Abandoned: at}, ""},
	} {
		test.drain.Since, test.drain.Steps = at, open
		f := newFamilies(100)
		f.addHosts([]observe.HostCondition{{Name: "kvm1", Record: &hostrecord.Record{
			Cordon: test.cordon, Evacuation: &test.drain,
		}}})
		want := scraped{}
		if test.state != "" {
			want[`virtfleet_host_drain{node="kvm1",state="`+test.state+`"}`] = 1
			want[`virtfleet_host_drain_start_time_seconds{node="kvm1"}`] = 1000
			want[`virtfleet_host_drain_open_steps{node="kvm1"}`] = 1
		}
		got := flat(f.all)
		for _, other := range []string{
			`virtfleet_host_fenced{node="kvm1"}`, `virtfleet_host_schedulable{node="kvm1"}`,
			`virtfleet_host_cordoned{node="kvm1"}`, `virtfleet_host_cordoned_timestamp_seconds{node="kvm1"}`,
		} {
			delete(got, other)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
