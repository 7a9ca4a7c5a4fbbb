package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// WaitFor is what makes a VM ready, besides that it runs.
type WaitFor status.ReadyCriteria

// Ready says whether the VM runs and has what is waited for. addresses
// are those of its interfaces, by key.
func (w WaitFor) Ready(vm *inventory.VM, addresses map[string][]string) bool {
	facts := vm.StateFacts()
	facts.Addresses = addresses

	return status.ReadyWith(facts, status.ReadyCriteria(w)).Status == status.True
}

func (w WaitFor) missing(vm *inventory.VM, addresses map[string][]string) []string {
	facts := vm.StateFacts()
	facts.Addresses = addresses

	var missing []string
	for _, c := range status.Missing(facts, status.ReadyCriteria(w)) {
		missing = append(missing, c.Message)
	}

	return missing
}

// Wait waits until the VM is ready or ctx ends, and returns it as it was
// seen last, together with its addresses. The error says what was awaited, for
// how long, and what was seen last.
func (f *Fleet) Wait(ctx context.Context, vm *inventory.VM, w WaitFor) (*inventory.VM, map[string][]string, error) {
	began := time.Now()

	watching, stop := context.WithCancel(ctx)
	defer stop()

	events, err := vm.On.Conn.Subscribe(watching, vm.UUID)
	if err != nil {
		events = nil // then polling has to do
	}

	f.log.InfoContext(ctx, "waiting for VM", "name", vm.Name, "host", vm.Host,
		"guest_agent", w.GuestAgent, "ip_address", w.IPAddress)

	for {
		addresses, err := f.lookAgain(ctx, &vm)
		if err != nil && !errors.Is(err, inventory.ErrUnreachable) && ctx.Err() == nil {
			return vm, nil, err
		}

		missing := w.missing(vm, addresses)
		if err == nil && len(missing) == 0 {
			f.log.InfoContext(ctx, "VM ready", "name", vm.Name, "host", vm.Host, "elapsed", time.Since(began))

			return vm, addresses, nil
		}

		if err != nil && ctx.Err() == nil {
			missing = append(missing, err.Error()) // A look that ended with the time saw nothing new.
		}

		events = inventory.NextLook(ctx, events)

		if ctx.Err() != nil {
			waited := time.Since(began)
			if deadline, ok := ctx.Deadline(); ok {
				waited = min(waited, deadline.Sub(began)) // the last look may have ended later
			}

			return vm, addresses, &inventory.Error{
				VM: vm.Name, Host: vm.Host, Kind: ErrNotReady, Err: context.Cause(ctx),
				Detail: fmt.Sprintf("waited %s for it to be ready; last seen: %s",
					waited.Round(time.Second), strings.Join(missing, ", ")),
				Remedy: "Look at the guest's console; apply again to continue waiting, or raise wait_for.timeout.",
			}
		}
	}
}

// lookAgain reads the VM and its addresses again.
func (f *Fleet) lookAgain(ctx context.Context, vm **inventory.VM) (map[string][]string, error) {
	now, err := f.Refresh(ctx, *vm)
	if err != nil {
		return nil, err
	}

	*vm = now

	return f.IPAddresses(ctx, now), nil
}

// addressTimeout bounds the one question that a refresh asks a guest.
const addressTimeout = 3 * time.Second

// IPAddresses returns the addresses of the VM's interfaces by key, asking
// the guest agent where one is connected, and the guest runs that it is in, else
// libvirt's DHCP leases. Nil means that nobody could say. It never waits for a
// guest longer than addressTimeout.
func (f *Fleet) IPAddresses(ctx context.Context, vm *inventory.VM) map[string][]string {
	if !vm.Active || vm.LiveSpec == nil || len(vm.LiveSpec.Interfaces) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()

	source := libvirt.SourceLease
	if vm.AgentConnected && vm.StateFacts().GuestRuns() {
		source = libvirt.SourceAgent
	}

	found, err := vm.On.Conn.InterfaceAddresses(ctx, vm.UUID, source)
	if err != nil {
		f.log.DebugContext(ctx, "addresses not reported", "name", vm.Name, "host", vm.Host, "error", err.Error())

		return nil
	}

	return byInterface(vm, source, found)
}

// byInterface merges what one source said with the definition, as an observation
// does with what all say.
func byInterface(vm *inventory.VM, source libvirt.AddressSource, found []libvirt.Address) map[string][]string {
	var sources status.Sources

	running := domain.Aligned(vm.LiveSpec, vm.PersistentSpec)
	for key, i := range running.Interfaces {
		sources.Domain = append(sources.Domain, status.DomainInterface{Name: key, MAC: i.MAC})
	}

	for _, l := range leases(found) {
		if source == libvirt.SourceAgent {
			sources.Agent = append(sources.Agent, status.GuestInterface{MAC: l.MAC, Addresses: []netip.Addr{l.Address}})
		} else {
			sources.Leases = append(sources.Leases, l)
		}
	}

	addresses := make(map[string][]string, len(running.Interfaces))

	for _, i := range status.Interfaces(sources) {
		for _, ip := range i.Addresses {
			// A link-local address leads nowhere from where Terraform runs.
			if i.Name != "" && !ip.IsLinkLocalUnicast() {
				addresses[i.Name] = append(addresses[i.Name], ip.String())
			}
		}
	}

	return addresses
}

// leases are the addresses that can be read, by MAC.
func leases(found []libvirt.Address) []status.Lease {
	all := []status.Lease{}

	for _, a := range found {
		if ip, err := netip.ParseAddr(a.IP); err == nil {
			all = append(all, status.Lease{MAC: a.MAC, Address: ip})
		}
	}

	return all
}
