package observe

import (
	"context"
	"net/netip"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// addressTimeout bounds the one question that a refresh asks a guest.
const addressTimeout = 3 * time.Second

// IPAddresses returns the addresses of the VM's interfaces by key. It asks the guest agent if that is connected and the
// guest runs, otherwise libvirt for its DHCP leases. Nil means unknown. It never waits for a guest longer than
// addressTimeout.
func (ob *Observer) IPAddresses(ctx context.Context, vm *inventory.VM) map[string][]string {
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
		ob.log.DebugContext(ctx, "addresses not reported", "name", vm.Name, "host", vm.Host, "error", err.Error())

		return nil
	}

	return byInterface(vm, source, found)
}

// byInterface merges the answer of one source with the definition, as an observation does with the answers of all.
func byInterface(vm *inventory.VM, source libvirt.AddressSource, found []libvirt.Address) map[string][]string {
	var sources status.Sources

	running := domain.AlignKeys(vm.LiveSpec, vm.PersistentSpec)
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
			// A link-local address is unreachable from where Terraform runs.
			if i.Name != "" && !ip.IsLinkLocalUnicast() {
				addresses[i.Name] = append(addresses[i.Name], ip.String())
			}
		}
	}

	return addresses
}

// leases returns the readable addresses, by MAC.
func leases(found []libvirt.Address) []status.Lease {
	all := []status.Lease{}

	for _, a := range found {
		if ip, err := netip.ParseAddr(a.IP); err == nil {
			all = append(all, status.Lease{MAC: a.MAC, Address: ip})
		}
	}

	return all
}
