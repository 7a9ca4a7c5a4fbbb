package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsInterface checks what an interface needs of its host in addition to a network: libvirt would accept a definition
// without it, and refuse to start the VM.
func fitsInterface(ctx context.Context, a inventory.Reply, d Desired, key string) []inventory.Problem {
	i := d.Spec.Interfaces[key]

	var problems []inventory.Problem

	lacks := func(attribute, format string, arguments ...any) {
		problems = append(problems, inventory.Problem{
			Attribute: "interfaces." + key + "." + attribute, Detail: fmt.Sprintf(format, arguments...),
		})
	}

	if i.Bridge != "" && !d.PlannedObjects.On(a.Host.Name, status.Bridge, i.Bridge) {
		if exists, known, err := a.Host.BridgeExists(ctx, i.Bridge); err == nil && known && !exists {
			lacks("bridge", "it has no bridge %q", i.Bridge)
		}
	}

	if i.Direct != "" && !d.PlannedObjects.On(a.Host.Name, status.Bridge, i.Direct) {
		if exists, known, err := a.Host.BridgeExists(ctx, i.Direct); err == nil && known && !exists {
			lacks("direct", "it has no network device %q", i.Direct)
		}
	}

	if filter := i.Values["filter.name"]; filter != "" && !d.PlannedObjects.On(a.Host.Name, status.NetworkFilter, filter) {
		if has, err := a.Host.HasNWFilter(ctx, filter); err == nil && !has {
			lacks("filter.name", "it has no network filter %q", filter)
		}
	}

	if i.Bridge != "" && i.Values["vlan.tags"] != "" && a.Info.Driver == "QEMU" &&
		!a.Info.LibvirtVersion.TagsVLAN("bridge", false, i.Values["virtual_port.type"]) {
		lacks("vlan", "%s", a.Info.LibvirtVersion.NeedsForVLAN())
	}

	if i.VDPA != "" && a.Info.Driver == "QEMU" && !a.Info.LibvirtVersion.AtLeast(6, 9, 0) {
		lacks("vdpa", "vDPA needs libvirt 6.9.0, it has %s", a.Info.LibvirtVersion)
	}

	return problems
}

// lacksBridgeOfNetwork checks that the host has the bridge that the network of an interface is connected to. libvirt
// starts a network without it, and then refuses to start the VM. Another check reports a network that can't be read.
func lacksBridgeOfNetwork(
	ctx context.Context, a inventory.Reply, d Desired, key string, read func() ([]libvirt.Network, error),
) []inventory.Problem {
	is := libvirt.Network{Name: d.Spec.Interfaces[key].Network, ForwardMode: "bridge", Active: true}

	bridge, planned := d.PlannedObjects.Connected(a.Host.Name, is.Name)
	if is.Bridge = bridge; !planned {
		networks, err := read()

		at := slices.IndexFunc(networks, func(n libvirt.Network) bool { return n.Name == is.Name })
		if err != nil || at < 0 {
			return nil
		}

		is = networks[at]
	}

	why, remedy := migration.LacksBridge(ctx, a.Host.BridgeExists, a.Info, is)
	if why == "" || d.PlannedObjects.On(a.Host.Name, status.Bridge, is.Bridge) {
		return nil
	}

	return []inventory.Problem{{Attribute: "interfaces." + key + ".network", Detail: "its " + why, Remedy: remedy}}
}

// refusesVLAN checks that libvirt starts the VM with the VLAN that an interface has or gets from its network. What a
// network that the same apply changes gives isn't known yet: its own plan checks it.
func refusesVLAN(
	a inventory.Reply, d Desired, key string, read func() ([]libvirt.Network, error),
) []inventory.Problem {
	i := d.Spec.Interfaces[key]
	if d.PlannedObjects.On(a.Host.Name, status.NetworkBandwidth, i.Network) {
		return nil
	}

	networks, err := read()

	at := slices.IndexFunc(networks, func(n libvirt.Network) bool { return n.Name == i.Network })
	if err != nil || at < 0 {
		return nil
	}

	own, port := i.Values["vlan.tags"] != "", i.Values["virtual_port.type"]
	if port == domain.None {
		port = ""
	}

	why, remedy := migration.RefusedVLAN(a.Info, networks[at], migration.Port{
		Group: i.Values["port_group"], VirtualPort: port, Tagged: own,
	})
	if why == "" {
		return nil
	}

	attribute := ".network"

	switch {
	case own:
		attribute = ".vlan"
	case i.Values["port_group"] != "":
		attribute = ".port_group"
	}

	return []inventory.Problem{{Attribute: "interfaces." + key + attribute, Detail: "its " + why, Remedy: remedy}}
}

// fitsStartedInterfaces checks that the host still has what those interfaces are connected to that the VM has already
// and keeps, if the change starts or restarts it: libvirt would refuse to start it.
func fitsStartedInterfaces(ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired) []inventory.Problem {
	restarts := vm.Active && d.Power != nil && d.Power.Restarts
	if !d.starts(vm) && !restarts || a.Host != vm.On {
		return nil // The checks of a move look at the interfaces.
	}

	kept := maps.Clone(vm.DeclaredSpec().Interfaces)
	maps.DeleteFunc(kept, func(key string, is domain.Interface) bool {
		want, declared := d.Spec.Interfaces[key]

		return d.Spec.Interfaces != nil && (!declared || asksHost(is, want))
	})

	d.Spec.Interfaces = kept

	return fitsNetworks(ctx, a, d)
}

// fitsLiveConnections checks that the host's libvirt can connect the interfaces of a running VM to the networks that
// are declared now. Whether a network gives an interface a virtual port is known to the host only: the plan can't
// restart the VM for it.
func fitsLiveConnections(ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired) []inventory.Problem {
	live := vm.RunningSpec(d.Spec)
	if live == nil || !live.FixedVirtualPorts || a.Host != vm.On || !d.runsOn(vm) || d.restarts(vm) {
		return nil
	}

	var problems []inventory.Problem

	for _, c := range domain.Changes(*live, d.Spec) {
		key, ofNetwork := strings.CutSuffix(strings.TrimPrefix(c.Path, "interfaces."), ".network")
		if !c.Live || !ofNetwork {
			continue
		}

		networks, err := a.Host.Conn.Networks(ctx)
		if err != nil {
			return nil // another check reports it
		}

		for _, n := range networks {
			if n.Name == d.Spec.Interfaces[key].Network && n.VirtualPort != "" {
				problems = append(problems, inventory.Problem{
					Attribute: c.Path, Detail: fmt.Sprintf("its libvirt %s can't connect an interface of a running VM to "+
						"network %q, which gives it a virtual port (%s): that needs libvirt 10.8.0", a.Info.LibvirtVersion,
						n.Name, n.VirtualPort),
					Remedy: fmt.Sprintf("Declare virtual_port = { type = %q } in the interface, too: then the change is made by "+
						"a restart, if update_policy allows it.", n.VirtualPort),
				})
			}
		}
	}

	return problems
}

// asksHost reports whether an interface is changed to something that its host may lack.
func asksHost(is, want domain.Interface) bool {
	changed := func(fact string) bool { return want.Values[fact] != "" && want.Values[fact] != is.Values[fact] }

	return is.Network != want.Network || is.Bridge != want.Bridge || is.Direct != want.Direct || is.VDPA != want.VDPA ||
		want.Floor() > is.Floor() || changed("filter.name") || changed("port_group") ||
		changed("vlan.tags") || changed("backend.type")
}
