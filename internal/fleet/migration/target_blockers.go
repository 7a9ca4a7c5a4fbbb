package migration

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CheckHosts returns everything that blocks, or may block, moving the VM to the target, unsorted. It changes nothing on
// either host. The fleet checks whether the target has room for the VM, because it knows what is reserved for other
// VMs, and sorts all blockers.
func CheckHosts(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) ([]Blocker, error) {
	from, err := source.Info(ctx)
	if err != nil {
		return nil, err
	}
	to, err := target.Info(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return []Blocker{UnansweredBlocker(target.Name(), err)}, nil
	}
	t := preflight{vm: vm, source: source, target: target, from: from, to: to, options: o.WithDefaults()}
	blockers := append(DomainBlockers(vm), o.Blockers(from, to)...)
	blockers = append(blockers, t.checkAll(ctx)...)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return blockers, nil
}

// preflight checks the move of one VM to one host.
type preflight struct {
	vm             VM
	source, target *libvirt.Host
	from, to       *libvirt.HostInfo
	options        Options
	// probeFiles says whether to look at the files themselves. A plan doesn't: for a file outside of all storage pools
	// this requires making a pool.
	probeFiles bool
}

// checkAll runs all checks of the target at once.
func (t preflight) checkAll(ctx context.Context) []Blocker {
	checks := []func(context.Context, *blockerList){
		t.checkHypervisor, t.checkCPU, t.checkGuestDevices, t.checkName, t.checkInterfaces, t.checkDisks, t.checkBootFiles,
		t.checkLocalFiles, t.checkHostTopology, t.checkSecrets,
	}
	found := make([]blockerList, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { check(ctx, &found[i]) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// UnansweredBlocker returns the blocker of a host, or of a storage pool of it, that did not answer whether the host can
// run a VM.
func UnansweredBlocker(host string, err error) Blocker {
	if silent, is := errors.AsType[*libvirt.SilentStorage](err); is {
		return Blocker{
			Reason: StorageNotAvailable, Status: status.False, Attribute: "host", Message: silent.Error(),
			Remedy: libvirt.SilentStorageRemedy,
		}
	}
	return Blocker{
		Reason: HostNotAvailable, Status: status.False, Attribute: "host",
		Message: fmt.Sprintf("host %q does not answer: %v", host, err),
		Remedy:  "Bring the host back, or choose another one.",
	}
}

// unanswered reports that a host did not answer a question.
func (f *blockerList) unanswered(reason, attribute string, host *libvirt.Host, what string, err error) {
	if errors.Is(err, libvirt.ErrUnreachable) {
		*f = append(*f, UnansweredBlocker(host.Name(), err))
		return
	}
	f.mayBlock(reason, attribute, fmt.Sprintf("%s of host %q can't be read: %v", what, host.Name(), err),
		"See why the host refuses the question.")
}

// checkHypervisor checks that the target supports the machine type, in this version.
func (t preflight) checkHypervisor(_ context.Context, f *blockerList) {
	facts := t.vm.Mobility
	if len(t.to.Guests) == 0 {
		return
	}
	var types, machines []string
	for _, g := range t.to.Guests {
		if g.Arch == facts.Arch {
			types, machines = g.DomainTypes, g.MachineTypes
		}
	}
	if !slices.Contains(types, facts.Type) {
		f.block(HypervisorNotCompatible, "type", fmt.Sprintf("host %q can't run domains of type %q for %s", t.target.Name(),
			facts.Type, facts.Arch), "Choose another host.")
		return
	}
	if !slices.Contains(machines, facts.Machine) {
		f.block(HypervisorNotCompatible, "machine_type",
			fmt.Sprintf("host %q has QEMU %s, which does not know machine type %q",
				t.target.Name(), t.to.HypervisorVersion, facts.Machine),
			"Update QEMU on the host, or give the VM an older machine type and restart it.")
	}
}

// checkCPU checks that the guest finds on the target the CPU that it was started with. The CPU of a stopped VM is
// chosen at its next start.
func (t preflight) checkCPU(ctx context.Context, f *blockerList) {
	facts := t.vm.Mobility
	switch {
	case !t.vm.Live() || facts.CPU == "":
		return
	case facts.CPUMode == "host-passthrough" || facts.CPUMode == "maximum":
		if facts.Type != "kvm" {
			return
		}
		const remedy = `Use cpu.mode = "host-model" or a model that all hosts have, and restart the VM.`
		if t.from.CPUModel != t.to.CPUModel {
			f.block(CPUModeNotLiveMigratable, "cpu.mode", fmt.Sprintf("its CPU is its host's own (%s, %s), and host %q has "+
				"another (%s)", facts.CPUMode, t.from.CPUModel, t.target.Name(), t.to.CPUModel), remedy)
			return
		}
		f.mayBlock(CPUModeNotLiveMigratable, "cpu.mode",
			fmt.Sprintf("its CPU is its host's own (%s); the hosts' CPUs have one "+
				"name (%s), and may still differ", facts.CPUMode, t.to.CPUModel), remedy)
		return
	}
	compared, err := t.target.CompareCPU(ctx, facts.CPU, facts.Type, facts.Arch, facts.Machine)
	switch {
	case errors.Is(err, libvirt.ErrUnsupported):
		f.mayBlock(CPUNotCompatible, "cpu", fmt.Sprintf("host %q can't compare CPUs: %v", t.target.Name(), err),
			"The host's QEMU will refuse the VM if it lacks something.")
	case err != nil:
		f.unanswered(CPUNotCompatible, "cpu", t.target, "the CPU", err)
	case compared.Match == libvirt.CPUIncompatible:
		f.block(CPUNotCompatible, "cpu", fmt.Sprintf("host %q can't give the guest its CPU: %s", t.target.Name(),
			compared.Detail), "Choose another host, or give the VM a CPU model that both have, and restart it.")
	}
}

// checkGuestDevices checks that the target's hypervisor supports those of the VM's devices that not every host can
// provide.
func (t preflight) checkGuestDevices(ctx context.Context, f *blockerList) {
	facts := t.vm.Mobility
	demands := append(facts.Values.Demands(), facts.Demands...)
	demands = slices.DeleteFunc(demands, func(d domain.Demand) bool { return d.Usual })
	if len(demands) == 0 || t.to.Driver != "QEMU" {
		return
	}
	has, err := t.target.GuestDevices(ctx, facts.Arch, facts.Type, facts.Machine)
	if err != nil {
		return // The host doesn't support this machine type, which checkHypervisor reports, or it doesn't answer.
	}
	for _, d := range demands {
		if ok, known := has.Has(d.Device, d.Enum, d.Value); known && !ok {
			f.block(HypervisorNotCompatible, d.Path, fmt.Sprintf("host %q %s", t.target.Name(), d.Missing()),
				"Give the host what it lacks, or choose another one.")
		}
	}
}

// checkName checks that no other VM on the target has the name.
func (t preflight) checkName(ctx context.Context, f *blockerList) {
	other, err := t.target.DomainByName(ctx, t.vm.Name)
	switch {
	case errors.Is(err, libvirt.ErrNotFound):
	case err != nil:
		f.unanswered(NameTaken, "name", t.target, "the VMs", err)
	case other.UUID != t.vm.UUID:
		f.block(NameTaken, "name", fmt.Sprintf("host %q has another VM named %q, with UUID %s", t.target.Name(),
			t.vm.Name, other.UUID), "Rename or remove the other VM.")
	}
}

// checkInterfaces checks that the target has the networks and their filters, and that they are the same networks.
func (t preflight) checkInterfaces(ctx context.Context, f *blockerList) {
	var here, there map[string]libvirt.Network
	filters := map[string]bool{}
	for _, i := range t.vm.Mobility.Interfaces {
		at := "interfaces." + i.Key
		t.checkFilter(ctx, f, at+".filter.name", i.Filter, filters)
		switch i.Type {
		case "network":
			if there == nil {
				var err error
				if here, there, err = t.networks(ctx); err != nil {
					f.unanswered(NetworkNotAvailable, at, t.target, "the networks", err)
					return
				}
			}
			t.checkNetwork(f, i, here, there)
			if why, remedy := LacksBridge(ctx, t.vm.bridgesOf(t.target), t.to, there[i.Source]); why != "" {
				f.lacks(status.NetworkBridgeOf(i.Source, there[i.Source].Bridge), NetworkNotAvailable, at,
					fmt.Sprintf("on host %q, %s", t.target.Name(), why), remedy)
			}
		case "bridge", "direct":
			exists, known, err := t.vm.bridgesOf(t.target)(ctx, i.Source)
			switch {
			case err != nil:
				f.unanswered(NetworkNotAvailable, at, t.target, "the network devices", err)
			case !known:
				f.mayBlock(NetworkNotAvailable, at,
					fmt.Sprintf("whether host %q has %s %q is not known, because its libvirt lists "+
						"no network devices", t.target.Name(), deviceNoun(i.Type), i.Source), "Look for it on the host (ip link).")
			case !exists:
				f.lacks(status.HostObject{Kind: status.Bridge, Name: i.Source}, NetworkNotAvailable, at,
					fmt.Sprintf("host %q has no %s %q", t.target.Name(), deviceNoun(i.Type), i.Source),
					"Create it on the host, or connect the interface to one that both hosts have.")
			}
		case "ethernet", "vhostuser", "internal", "null", "vds":
			f.mayBlock(InterfaceNotLiveMigratable, at,
				fmt.Sprintf("interface %q is of type %s, and what it leads to on host %q "+
					"can't be asked", i.Key, i.Type, t.target.Name()), "Prepare the same on the host.")
		}
	}
	t.checkFloors(f, there)
}

// checkFilter checks that the target has the network filter of an interface. libvirt accepts a definition without it,
// and refuses to start the VM. asked has what the target said about the filters of other interfaces.
func (t preflight) checkFilter(
	ctx context.Context, f *blockerList, attribute, filter string, asked map[string]bool,
) {
	if filter == "" {
		return
	}
	has, known := asked[filter]
	if !known {
		var err error
		if has, err = t.target.HasNWFilter(ctx, filter); err != nil {
			f.unanswered(NetworkNotAvailable, attribute, t.target, "the network filters", err)
			return
		}
		asked[filter] = has
	}
	if !has {
		f.lacks(status.HostObject{Kind: status.NetworkFilter, Name: filter}, NetworkNotAvailable, attribute,
			fmt.Sprintf("host %q has no network filter %q", t.target.Name(), filter),
			"Define the filter on the host, or take it from the interface.")
	}
}

// checkNetwork checks one of libvirt's networks.
func (t preflight) checkNetwork(f *blockerList, i domain.MobileInterface, here, there map[string]libvirt.Network) {
	n, ok := there[i.Source]
	network := status.HostObject{Kind: status.Network, Name: i.Source}
	switch {
	case !ok:
		f.lacks(network, NetworkNotAvailable, "interfaces."+i.Key,
			fmt.Sprintf("host %q has no network %q", t.target.Name(), i.Source),
			"Define and start the network on the host, or connect the interface to one that both hosts have.")
	case !n.Active:
		f.lacks(network, NetworkNotAvailable, "interfaces."+i.Key,
			fmt.Sprintf("network %q of host %q is not started", i.Source, t.target.Name()),
			"Start it: virsh net-start "+i.Source+".")
	}
	// The source's network may have lost the port group, whose settings a running VM keeps.
	has := HasPortGroup(here[i.Source], i.PortGroup) || t.vm.Live() && i.Given && !tagsAll(here[i.Source])
	if ok && i.PortGroup != "" && has && !HasPortGroup(n, i.PortGroup) {
		f.lacks(status.PortGroupOf(i.Source, i.PortGroup), NetworkNotAvailable, "interfaces."+i.Key+".port_group",
			fmt.Sprintf("network %q of host %q has no port group %q: the interface would get no VLAN and no limits from it",
				i.Source, t.target.Name(), i.PortGroup), "Give the network the port group on the host, too.")
	}
	port := Port{Group: i.PortGroup, VirtualPort: i.VirtualPort}
	if why, remedy := RefusedVLAN(t.to, n, port); ok && why != "" {
		changes := status.HostObject{Kind: status.NetworkBandwidth, Name: i.Source}
		f.lacks(changes, NetworkNotAvailable, "interfaces."+i.Key, fmt.Sprintf("on host %q, %s", t.target.Name(), why),
			remedy)
	}
	if !ok {
		n = here[i.Source] // It may be created on the target before the VM moves.
	}
	if t.vm.Live() && !*t.options.AllowNetworkChange && (IsHostLocal(n) || IsHostLocal(here[i.Source])) {
		f.block(InterfaceNotLiveMigratable, "interfaces."+i.Key, fmt.Sprintf("network %q (%s) is each host's own: the "+
			"guest's address and connections there would not survive", i.Source, forwardMode(n)),
			"Connect the interface to a bridge that spans the hosts, or set migration_options.allow_network_change = true.")
	}
	if t.vm.Live() && i.Failover && ok && n.ForwardMode == hostdevPool && t.to.LacksIOMMU {
		f.block(HostResourcesNotAvailable, "interfaces."+i.Key, fmt.Sprintf("network %q of host %q can't give a PCI device "+
			"to a VM, %s", i.Source, t.target.Name(), NoIOMMU), IOMMURemedy)
	}
	if t.vm.Live() && !i.Failover && (n.ForwardMode == hostdevPool || here[i.Source].ForwardMode == hostdevPool) {
		f.block(HostDeviceNotLiveMigratable, "interfaces."+i.Key, fmt.Sprintf("network %q (hostdev) gives interface %q a "+
			"device of its host", i.Source, i.Key),
			"Connect the interface to another network, detach it, make it the transient one of a pair (teaming), or shut "+
				"the VM down.")
	}
}

// LacksBridge returns why the host can't connect VMs to an active network, and what to do about it: the host is known
// not to have the network's bridge. It returns "" otherwise, also for a network that another check refuses.
func LacksBridge(
	ctx context.Context, bridgeExists BridgeExists, info *libvirt.HostInfo, n libvirt.Network,
) (why, remedy string) {
	if n.Bridge == "" || !n.Active || info.Driver != "QEMU" { // libvirt's test driver has no devices of a real host.
		return "", ""
	}
	exists, known, err := bridgeExists(ctx, n.Bridge)
	if err != nil || exists || !known {
		return "", ""
	}
	why = fmt.Sprintf("network %q is connected to bridge %q, which the host doesn't have", n.Name, n.Bridge)
	if IsHostLocal(n) { // libvirt creates the bridge.
		return why, fmt.Sprintf("Restart the network: \"virsh net-destroy %[1]s\", then \"virsh net-start %[1]s\".", n.Name)
	}
	return why, "Create the bridge on the host, or give the network a bridge that is there."
}

// NoIOMMU is the end of a sentence about a host that can't give PCI devices to VMs, and IOMMURemedy what to do about
// it.
const (
	NoIOMMU     = "because its kernel uses no IOMMU"
	IOMMURemedy = "Turn on VT-d (Intel) or AMD-Vi (IOMMU) in the host's firmware, and boot its kernel with " +
		"intel_iommu=on if its CPU is Intel's. Or choose another host."
)

// GivesHostDevices reports whether the network of that name gives each interface a PCI device of the host.
func GivesHostDevices(networks []libvirt.Network, name string) bool {
	return slices.ContainsFunc(networks, func(n libvirt.Network) bool {
		return n.Name == name && n.ForwardMode == hostdevPool
	})
}

// HasPortGroup reports whether a network has the port group of that name. libvirt accepts an interface that names
// another one, and gives it nothing that belongs to a port group.
func HasPortGroup(n libvirt.Network, name string) bool {
	var definition struct {
		Groups []struct {
			Name string `xml:"name,attr"`
		} `xml:"portgroup"`
	}
	if xml.Unmarshal([]byte(n.XML), &definition) != nil {
		return false
	}
	for _, group := range definition.Groups {
		if group.Name == name {
			return true
		}
	}
	return false
}

// hostdevPool is the forward mode of a network whose interfaces are devices of the host.
const hostdevPool = "hostdev"

// IsHostLocal says whether a network is local to its host: a guest's addresses there don't survive a move.
func IsHostLocal(n libvirt.Network) bool {
	switch n.ForwardMode {
	case "", "nat", "route", "open":
		return true
	default:
		return false
	}
}

func forwardMode(n libvirt.Network) string {
	if n.ForwardMode == "" {
		return "isolated"
	}
	return n.ForwardMode
}

func deviceNoun(kind string) string {
	if kind == "bridge" {
		return kind
	}
	return "network device"
}
