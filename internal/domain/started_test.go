package domain

import (
	"strings"
	"testing"
)

// TestStarted_survivesTheGuest: what a running VM was started with is known while its guest changes the value, and
// its record isn't touched by further staged changes.
func TestStarted_survivesTheGuest(t *testing.T) {
	t.Parallel()
	clock := func(adjustment, metadata string) Spec {
		return parse(t, `<domain><metadata>`+metadata+`</metadata><clock offset="variable" adjustment="`+adjustment+
			`" basis="utc"/></domain>`).Spec()
	}
	const path = "platform.clock.adjustment"
	before, moved, staged := clock("-3600", ""), clock("82801", ""), clock("120", "")
	if found := Pending(moved, before); len(found) > 0 {
		t.Errorf("what the guest does is pending: %v", found)
	}
	started := StartedBefore(moved, before, Changes(before, staged))
	if len(started) != 1 || started[path] != "-3600" {
		t.Fatalf("the record is %v", started)
	}
	if found := StartedBefore(moved, before, []Change{{Path: "cpu.vcpus"}}); found != nil {
		t.Errorf("another change is recorded as %v", found)
	}
	xml := strings.Replace(Spec{Started: started}.RunXML(), "<run>", `<run xmlns="`+RunNamespace+`">`, 1)
	moved = clock("82801", xml)
	if found := Pending(moved, staged); len(found) != 1 || found[0].Path != path {
		t.Errorf("pending is %v", found)
	}
	if found := Pending(moved, before); len(found) > 0 {
		t.Errorf("pending is %v although the definition says what the VM was started with", found)
	}
	if again := StartedBefore(moved, staged, Changes(staged, before)); again != nil {
		t.Errorf("a further change is recorded as %v", again)
	}
	if now := WithoutLibvirtDefaults(moved, Spec{}); now.Values[path] != "-3600" {
		t.Errorf("compared with nothing, it is %q", now.Values[path])
	}
}
