package fleet

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Two operators move running VMs to a host and create VMs there at the same time. The host takes as many as it has
// memory for, and no more. What it refuses isn't created, or runs on where it is.
func TestLab_arrivalsAtOnce(t *testing.T) {
	t.Parallel()

	const each, places, ofAKind = 32 << 20, 3, 4

	l := lab.Open(t)
	from, to := l.StartHost(t).Name, l.StartHost(t).Name
	limit := func(name string, hc *inventory.HostConfig) {
		hc.OvercommitGuestOverhead = true
		if name == to {
			hc.MemoryLimit = places * each
		}
	}
	runs := []*Fleet{labFleet(t, l, "first run", limit), labFleet(t, l, "second run", limit)}
	wish := func(what string, i int, host string) placement.Desired {
		d := light(t, l, fmt.Sprintf("%s-%s-%d", lab.Name(t), what, i), nil)
		d.Metadata.Host = host

		return d
	}

	var moved []*inventory.VM
	for i := range ofAKind {
		moved = append(moved, create(t, runs[i%2], l, wish("moved", i, from)))
	}

	runs[1].ForgetAll()

	// A plan with all of these moves and a new VM tells what doesn't fit together.
	warned := func(problems []inventory.Problem, err error) (text string) {
		t.Helper()

		if err != nil {
			t.Fatal(err)
		}

		for _, p := range problems {
			if !p.Warning {
				t.Errorf("refused: %+v", p)
			}

			text += p.Summary + ": " + p.Detail + "\n"
		}

		return text
	}

	for i, vm := range moved {
		text := warned(runs[0].CheckMove(t.Context(), MoveOrder{UUID: vm.UUID, Last: lastOf(vm), Target: to}, nil))
		if tells := strings.Contains(text, "can't be moved now: together with "); tells != (i == places) ||
			tells && !strings.Contains(text, moved[0].Name) {
			t.Errorf("the plan of move %d warns: %s", i, text)
		}
	}

	text := warned(runs[0].CheckCreate(t.Context(), wish("planned", 0, to)))
	if !strings.Contains(text, "can't be started now: together with ") || !strings.Contains(text, moved[0].Name) {
		t.Errorf("the plan of a new VM warns: %s", text)
	}

	var going sync.WaitGroup

	for i, vm := range moved {
		going.Go(func() {
			_, _, err := runs[i%2].Move(t.Context(), vm.UUID, lastOf(vm), to, migration.Options{})
			if err != nil && (!errors.Is(err, migration.ErrBlocked) ||
				!strings.Contains(err.Error(), migration.InsufficientMemory)) {
				t.Errorf("moving %s: %v", vm.Name, err)
			}
		})
		going.Go(func() {
			d := wish("new", i, to)
			l.RemoveDomain(t, d.Spec.Name)

			if vm, err := runs[i%2].Create(t.Context(), d); err != nil && (vm != nil || !errors.Is(err, placement.ErrNoHost)) {
				t.Errorf("creating %s: %v", d.Spec.Name, err)
			}
		})
	}

	fleettest.AwaitAll(t, &going)

	there := strings.Fields(l.Virsh(t, to, "list", "--name"))
	if all := strings.Fields(l.Virsh(t, to, "list", "--all", "--name")); len(there) != places || len(all) != places {
		t.Errorf("of %q, which host %s has, %q run; want %d", all, to, there, places)
	}

	stayed := strings.Fields(l.Virsh(t, from, "list", "--name"))
	for _, vm := range moved {
		arrives := strings.Contains(strings.Join(there, " "), vm.Name)
		if stays := strings.Contains(strings.Join(stayed, " "), vm.Name); stays == arrives {
			t.Errorf("%s stays %v, arrives %v", vm.Name, stays, arrives)
		}
	}
}
