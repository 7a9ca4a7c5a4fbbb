package network

import (
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// RefusedVLANs returns the VLANs with which libvirt of that version starts no VM. It refuses them when it defines the
// network, but accepts them as a change of an active one.
func (s Spec) RefusedVLANs(version libvirt.Version) (problems []Problem) {
	forward := s.Forward.normal()
	refused := func(groups ...*VirtualPort) bool {
		var kind string
		for _, port := range append(groups, s.VirtualPort) {
			if port != nil && kind == "" {
				kind = port.Type
			}
		}
		return !version.TagsVLAN(forward.Mode, len(forward.Devices) > 0, kind)
	}
	const remedy = "No VM with such an interface starts there. %s. Remove vlan, or change the network."
	groups := listOf(s.PortGroups)
	usual := slices.ContainsFunc(groups, func(g namedPortGroup) bool { return g.Default })
	whole := s.VLAN.normal() != nil && !usual && refused()
	for _, g := range groups {
		switch {
		case g.VLAN.normal() != nil && refused(g.VirtualPort):
			problems = append(problems, problem("port_groups", "Port group %q of a network with mode = %q can't have a VLAN. "+
				remedy, g.name, forward.Mode, version.NeedsForVLAN()))
		case g.VLAN.normal() == nil && s.VLAN.normal() != nil && refused(g.VirtualPort):
			whole = true
		}
	}
	if whole {
		problems = append(problems, problem("vlan", "A network with mode = %q can't have a VLAN. "+remedy, forward.Mode,
			version.NeedsForVLAN()))
	}
	return problems
}
