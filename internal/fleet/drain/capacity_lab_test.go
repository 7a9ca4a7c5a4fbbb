package drain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// VMs that fit on the other hosts only if the first doesn't go where there is most room all find theirs: none is
// over-committed while they move, and all come back.
func TestLab_drainFitsOnlyCleverly(t *testing.T) {
	t.Parallel()

	const mebibyte = 1 << 20

	l := lab.Open(t)
	from, small, large := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, small, large)
	for _, h := range []*lab.Host{from, small, large} {
		f.Host(h.Name).Config.OvercommitGuestOverhead = true // The numbers below are those of the guests.
	}

	f.Host(small.Name).Config.MemoryLimit, f.Host(large.Name).Config.MemoryLimit = 100*mebibyte, 200*mebibyte

	made := map[string]*inventory.VM{}

	// One after another, each to the emptiest host, the first two would fill the large one.
	for name, size := range map[string]uint64{"a": 90 * mebibyte, "b": 60 * mebibyte, "c": 140 * mebibyte} {
		d := light(t, l, name, nil)
		d.Spec.Memory.Size = &size
		made[name] = create(t, alone, l, d)
	}

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if got := resultsOf(steps); err != nil || got != "a=Moved b=Moved c=Moved" {
		t.Fatalf("%s, %v", got, err)
	}

	for name, on := range map[string]string{"a": small.Name, "b": large.Name, "c": large.Name} {
		onlyOn(t, f, made[name].UUID, on)

		if got := howStarted(t, f, made[name].UUID); got != on+" Running Migrated" {
			t.Errorf("%s is %s, want it on %s", name, got, on)
		}
	}

	// At the first attempt: no VM was sent to a host without room.
	withinLimits(t, f, made, 1)

	// They are full to where the next one would be too much.
	late := light(t, l, "late", nil)
	size := uint64(20 * mebibyte)
	late.Spec.Memory.Size = &size

	problems, err := f.CheckCreate(t.Context(), late)
	for _, want := range []string{
		"it needs 20Mi of memory, including QEMU's own; 10Mi of 100Mi are free", "0Ki of 200Mi are free",
	} {
		if err != nil || !strings.Contains(fmt.Sprint(problems), want) {
			t.Errorf("%q is missing in %+v, %v", want, problems, err)
		}
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	for name, vm := range made {
		onlyOn(t, f, vm.UUID, from.Name)

		if got := howStarted(t, f, vm.UUID); got != from.Name+" Running Migrated" {
			t.Errorf("brought back, %s is %s", name, got)
		}
	}

	withinLimits(t, f, made, 2)
}

// withinLimits fails the test unless each VM was moved so often, and the last time no more of them at once than one
// host may send, or take.
func withinLimits(t *testing.T, f *fleet.Fleet, made map[string]*inventory.VM, moves int) {
	t.Helper()

	var last []domain.Migration

	for name, vm := range made {
		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || len(now.Metadata.Migrations) != moves {
			t.Fatalf("%s: %+v, %v; want %d moves", name, now, err, moves)
		}

		last = append(last, now.Metadata.Migrations[moves-1])
	}

	for _, m := range last {
		atOnce := 0

		for _, other := range last {
			if !other.Start.After(m.Start) && other.End.After(m.Start) {
				atOnce++
			}
		}

		if limit := f.Queue.Limits().OutboundPerHost; limit != f.Queue.Limits().InboundPerHost || atOnce > limit {
			t.Errorf("%d VMs moved at once, and %d may: %+v", atOnce, limit, last)
		}
	}
}
