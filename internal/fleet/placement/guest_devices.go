package placement

import (
	"cmp"
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

// fitsDevices checks that the host's libvirt and QEMU support the declared values of device attributes. Otherwise
// libvirt would refuse to define or start the VM.
func fitsDevices(ctx context.Context, a inventory.Reply, s domain.Spec, defaultType string) []inventory.Problem {
	if a.Info.Driver != "QEMU" {
		return nil
	}

	problems := fitsAge(a, s)

	demands := s.Demands(a.Info.Arch)
	if len(demands) == 0 {
		return problems
	}

	arch := cmp.Or(s.Arch, a.Info.Arch)

	devices, err := a.Host.Conn.GuestDevices(ctx, arch, a.TypeFor(s, defaultType),
		cmp.Or(s.Machine, domain.DefaultMachineType(arch)))
	if err != nil {
		return problems // libvirt then reports an unsupported value when the VM is defined
	}

	return append(problems, unmetDemands(devices, demands)...)
}

// unmetDemands returns a problem for each demand that the host's devices don't meet. What the host lacks of one list of
// values is one problem.
func unmetDemands(devices libvirt.GuestDevices, demands []domain.Demand) []inventory.Problem {
	var problems []inventory.Problem

	of := map[string]int{} // The index of the problem with a list.

	for _, d := range demands {
		if has, known := devices.Has(d.Device, d.Enum, d.Value); !known || has {
			continue
		}

		list := d.Device + "/" + d.Enum

		i, listed := of[list]
		if d.Needs == "" && listed {
			problems[i].Detail += fmt.Sprintf(", %s %q", d.Path, d.Value)

			continue
		}

		if d.Needs == "" && len(devices.Values(d.Device, d.Enum)) > 0 {
			of[list] = len(problems)
		}

		problems = append(problems, inventory.Problem{Attribute: d.Path, Detail: "it " + d.Missing()})
	}

	for list, i := range of {
		device, enum, _ := strings.Cut(list, "/")
		problems[i].Detail += ", only " + inventory.QuoteList(devices.Values(device, enum))
	}

	return problems
}

// fitsParts checks that the host has the CPUs, NUMA nodes, huge pages and security drivers that the VM is bound to.
func fitsParts(a inventory.Reply, d Desired) []inventory.Problem {
	spec, pages := d.Spec.WithPagesOf(d.Have.Values), map[uint64]uint64(nil)
	if d.Strategy() != status.Halted { // otherwise the pages can become available before the VM starts
		pages = spec.HostUse().Pages
	}

	var problems []inventory.Problem
	for _, p := range spec.Values.Lacking(migration.HostTopology(a.Info), pages) {
		problems = append(problems, inventory.Problem{Attribute: p.Path, Detail: "it " + p.Message})
	}

	return problems
}

// fitsAge checks that the host's libvirt is new enough for the declared attributes.
func fitsAge(a inventory.Reply, s domain.Spec) []inventory.Problem {
	var problems []inventory.Problem

	recent := s.Since()
	for _, path := range slices.Sorted(maps.Keys(recent)) {
		problems = append(problems, fitsSince(a, path, recent[path])...)
	}

	return problems
}

// fitsSince checks that the host's libvirt is new enough for an attribute, or for its value.
func fitsSince(a inventory.Reply, path string, since domain.Since) []inventory.Problem {
	var need libvirt.Version

	if n, _ := fmt.Sscanf(since.Version, "%d.%d.%d", &need.Major, &need.Minor, &need.Micro); n < 3 ||
		a.Info.LibvirtVersion.AtLeast(need.Major, need.Minor, need.Micro) {
		return nil
	}

	return []inventory.Problem{{
		Attribute: path, Detail: fmt.Sprintf("%s needs libvirt %s, it has %s", since.What, need, a.Info.LibvirtVersion),
	}}
}

// changedValues returns the values that differ from what the VM has, and completes new devices.
func changedValues(want domain.Spec, have *domain.Spec) domain.Values {
	changed := maps.Clone(want.Values.Complete(have.Values, cmp.Or(want.Arch, have.Arch)))
	maps.DeleteFunc(changed, func(path, value string) bool { return have.Values[path] == value })

	return changed
}
