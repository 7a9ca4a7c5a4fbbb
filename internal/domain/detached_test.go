package domain

import (
	"strings"
	"testing"
)

// TestRunningKeys_detachedByHand: a device that was renamed while the VM runs, and that a user then detached from the
// definition alone, is in the definition again after an update, as the one that runs.
func TestRunningKeys_detachedByHand(t *testing.T) {
	t.Parallel()
	undeclared := func(_ *Disk, i *Interface, _, _ Row) { i.MAC = "" }
	want := oneOf("b", undeclared)
	// The disk has what a new one gets.
	xml := strings.Replace(runningVM, `type="raw"/>`, `type="raw" discard="unmap" error_policy="stop"/>`, 1)
	for _, forgotten := range []bool{false, true} {
		r := &run{
			live:       parse(t, strings.Replace(xml, "ID", ` id="1"`, 1)),
			persistent: parse(t, strings.Replace(xml, "ID", "", 1)), t: t,
		}
		r.apply(want)
		for _, b := range blocks {
			if b.pairs == nil {
				continue
			}
			for _, e := range b.elements(r.persistent) {
				drop(e)
			}
		}
		names := r.persistent.recordedNames()
		if forgotten {
			names = nil
		}
		for _, d := range []*Definition{r.live, r.persistent} {
			if err := d.setDeviceNames(names); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			steps := r.apply(want.WithRunningMACs(r.live.Spec(), r.persistent.Spec()))
			for _, s := range steps {
				t.Errorf("forgotten %v: %v %s: %s", forgotten, s.Kind, s.Path, s.XML)
			}
			live, persistent := r.live.Spec(), r.persistent.Spec()
			if only := OnlyRunning(live, persistent); only != nil {
				t.Errorf("forgotten %v: only the running VM has %v", forgotten, only)
			}
			if changes := r.changes(want); changes != "" {
				t.Errorf("forgotten %v: it still changes %s", forgotten, changes)
			}
			if pending := Pending(live, persistent); len(pending) > 0 {
				t.Errorf("forgotten %v: a restart would change %v", forgotten, pending)
			}
		}
	}
}
