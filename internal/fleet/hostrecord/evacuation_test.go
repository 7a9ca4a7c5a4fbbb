package hostrecord

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// A drained host that doesn't answer may have the VMs that the drain left there. A VM that came after the drain is
// another matter: the host was in use again.
func TestEvacuation_keepsWhatTheDrainLeft(t *testing.T) {
	t.Parallel()

	step := func(uuid, result, target string) RecordedStep {
		s := RecordedStep{Result: result}
		s.UUID, s.Target = uuid, target

		return s
	}
	e := &Evacuation{Done: true, Steps: []RecordedStep{
		step("shut down", ResultShutDown, ""), step("saved", ResultSaved, ""), step("off before", ResultLeft, ""),
		step("moved", ResultMoved, "kvm2"), step("moved off", ResultColdMoved, "kvm2"), step("gone", ResultMoved, ""),
	}}

	for uuid, want := range map[string]bool{
		"shut down": true, "saved": true, "off before": true, "gone": true,
		"moved": false, "moved off": false, "came later": false,
	} {
		if got := e.Told("m").Keeps(uuid); got != want {
			t.Errorf("%s: %t, want %t", uuid, got, want)
		}
	}

	e = &Evacuation{Done: true, Abridged: true}
	if !e.Keeps("one that the same apply read as running") {
		t.Error("without the steps, a VM may be on the drained host")
	}
}

// A record that lacks a maintenance of which the other hosts were told is lost, unless the host is under another
// maintenance, or what is told is about another one.
func TestRecord_lost(t *testing.T) {
	t.Parallel()

	told := (&Evacuation{Done: true}).Told("m")

	for what, c := range map[string]struct {
		record Record
		told   *Evacuation
		id     string
		want   bool
	}{
		"lost":                    {told: told, id: "m", want: true},
		"there":                   {record: Record{Cordon: &Cordon{ID: "m"}}, told: told, id: "m"},
		"being ended":             {record: Record{Evacuation: &Evacuation{Releasing: "m"}}, told: told, id: "m"},
		"ended":                   {id: "m"},
		"told of another one":     {told: told, id: "n"},
		"under another one":       {record: Record{Cordon: &Cordon{ID: "n"}}, told: told, id: "m"},
		"imported, there is none": {told: told},
	} {
		if got := c.record.Lost(c.told, c.id); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
}

// A host that answers and isn't cordoned may have lost the record of its maintenance: what others know of it stays.
func TestRecord_forgetElsewhere(t *testing.T) {
	t.Parallel()

	now := time.Now()
	r := Record{
		Elsewhere: map[string]*Evacuation{
			"lost": (&Evacuation{}).Told("m"), "old": {}, "this": (&Evacuation{}).Told("n"), "off": {},
		},
		Released: map[string]time.Time{"lost": now, "old": now, "this": now},
	}
	r.ForgetElsewhere("this", "", map[string]bool{"lost": true, "old": true})

	if got := slices.Sorted(maps.Keys(r.Elsewhere)); !slices.Equal(got, []string{"lost", "off"}) {
		t.Errorf("kept are the maintenances of %q", got)
	}

	if got := slices.Sorted(maps.Keys(r.Released)); !slices.Equal(got, []string{"lost", "old"}) {
		t.Errorf("kept are the ends of the maintenances of %q", got)
	}
}
