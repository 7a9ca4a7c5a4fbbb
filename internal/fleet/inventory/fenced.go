package inventory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fencedTimeout limits the question to a fenced host, connecting included. Most are off, and never answer.
const fencedTimeout = 4 * time.Second

// FencedAnswer is what a fenced host says about a VM. It should be off, and say nothing.
type FencedAnswer struct {
	Host string
	// Runs says that the VM runs there, or is paused. Unknown says that libvirt doesn't tell, although the host is up.
	Runs, Unknown bool
}

// fencedStates are the domains that are active on a fenced host, by UUID and by name, and what is known of the host.
type fencedStates struct {
	active      map[string]bool
	up, unknown bool
}

// AskFenced returns the answers of the fenced hosts that do answer about a VM, which is known by its UUID or its name.
// Each host is asked once, for all VMs, and for four seconds at most: before a VM that is gone with its host is created
// again, a host that isn't off after all is found.
func (inv *Inventory) AskFenced(ctx context.Context, known ...string) (answers []FencedAnswer) {
	var hosts []*Host

	for _, name := range inv.FencedHosts() {
		hosts = append(hosts, inv.Host(name))
	}

	states := make([]fencedStates, len(hosts))

	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { states[i] = h.statesOfFenced(ctx) })
	}

	wg.Wait()

	for i, h := range hosts {
		if said := states[i]; said.up {
			runs := slices.ContainsFunc(known, func(as string) bool { return said.active[as] })
			answers = append(answers, FencedAnswer{Host: h.Name, Runs: runs, Unknown: said.unknown})
		}
	}

	return answers
}

// statesOfFenced returns what a fenced host says of its domains. It is asked once.
func (h *Host) statesOfFenced(ctx context.Context) fencedStates {
	states, _ := h.fenced.get(ctx, "", func(ctx context.Context) (fencedStates, error) {
		asking, cancel := context.WithTimeout(ctx, fencedTimeout)
		defer cancel()

		all, err := h.Conn.Stats(asking, libvirt.StatsState)
		if err != nil { // That it is silent is an answer, and isn't asked for again.
			answered := []error{libvirt.ErrNoDaemon, libvirt.ErrRefused, libvirt.ErrDenied}
			up := slices.ContainsFunc(answered, func(kind error) bool { return errors.Is(err, kind) })

			return fencedStates{up: up, unknown: up}, ctx.Err()
		}

		states := fencedStates{up: true, active: map[string]bool{}}
		for _, d := range all {
			if d.State.Active() {
				states.active[d.UUID], states.active[d.Name] = true, true
			}
		}

		return states, nil
	})

	return states
}
