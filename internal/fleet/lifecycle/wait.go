package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// WaitFor is what a VM requires to be ready, in addition to running.
type WaitFor status.ReadyCriteria

// Ready reports whether the VM runs and meets the criteria. addresses are the addresses of its interfaces, by key.
func (w WaitFor) Ready(vm *inventory.VM, addresses map[string][]string) bool {
	facts := vm.StateFacts()
	facts.Addresses = addresses

	return status.ReadyWith(facts, status.ReadyCriteria(w)).Status == status.True
}

// unmetCriteria returns what the VM lacks to be ready.
func (w WaitFor) unmetCriteria(vm *inventory.VM, addresses map[string][]string) []string {
	facts := vm.StateFacts()
	facts.Addresses = addresses

	var missing []string
	for _, c := range status.Missing(facts, status.ReadyCriteria(w)) {
		missing = append(missing, c.Message)
	}

	return missing
}

// Wait waits until the VM is ready or ctx ends, and returns the VM as it was last read, with its addresses. The error
// says how long it waited, and what the last state was.
func (m *Manager) Wait(ctx context.Context, vm *inventory.VM, w WaitFor) (*inventory.VM, map[string][]string, error) {
	began := time.Now()

	watching, stop := context.WithCancel(ctx)
	defer stop()

	events, err := vm.On.Conn.Subscribe(watching, vm.UUID)
	if err != nil {
		events = nil // poll without events
	}

	m.log.InfoContext(ctx, "waiting for VM", "name", vm.Name, "host", vm.Host,
		"guest_agent", w.GuestAgent, "ip_address", w.IPAddress)

	for {
		addresses, err := m.refreshWithAddresses(ctx, &vm)
		if err != nil && !errors.Is(err, inventory.ErrUnreachable) && ctx.Err() == nil {
			return vm, nil, err
		}

		missing := w.unmetCriteria(vm, addresses)
		if err == nil && len(missing) == 0 {
			m.log.InfoContext(ctx, "VM ready", "name", vm.Name, "host", vm.Host, "elapsed", time.Since(began))

			return vm, addresses, nil
		}

		if err != nil && ctx.Err() == nil {
			missing = append(missing, err.Error()) // if ctx ended meanwhile, the error says nothing about the VM
		}

		events = inventory.NextLook(ctx, events)

		if ctx.Err() != nil {
			waited, remedy := time.Since(began), "Look at the guest's console"
			if deadline, ok := ctx.Deadline(); ok {
				waited = min(waited, deadline.Sub(began)) // the last read may have ended later
			}

			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				remedy += ", or raise wait_for.timeout"
			}

			return vm, addresses, &inventory.Error{
				VM: vm.Name, Host: vm.Host, Kind: ErrNotReady, Err: context.Cause(ctx),
				Detail: fmt.Sprintf("waited %s for it to be ready; last seen: %s",
					waited.Round(time.Second), strings.Join(missing, ", ")),
				Remedy: remedy + ".", Next: inventory.Continue,
			}
		}
	}
}

// refreshWithAddresses reads the VM and its addresses again.
func (m *Manager) refreshWithAddresses(ctx context.Context, vm **inventory.VM) (map[string][]string, error) {
	now, err := m.hosts.Refresh(ctx, *vm)
	if err != nil {
		return nil, err
	}

	*vm = now

	return m.observer.IPAddresses(ctx, now), nil
}
