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

// controllers are the controllers of cgroups by which libvirt limits a VM.
var controllers = []libvirt.Controller{
	libvirt.ControllerCPU, libvirt.ControllerMemory, libvirt.ControllerBlkio,
}

// witnesses is how many of a host's VMs are asked about its cgroups. One alone may have been started before the host's
// settings were changed.
const witnesses = 3

// cgroups are the controllers that a host gives VMs, as a VM that runs there shows.
type cgroups struct {
	has map[libvirt.Controller]bool
	// of is the name of that VM.
	of string
}

// any reports whether the host gives VMs any cgroup.
func (g cgroups) any() bool {
	return slices.ContainsFunc(controllers, func(c libvirt.Controller) bool { return g.has[c] })
}

// refuses reports whether the host's libvirt refuses to start a VM with the limit. Without the controller of the CPU it
// refuses quotas. Other limits it refuses only if it puts the VM into cgroups of other controllers; else it ignores
// them.
func (g cgroups) refuses(attribute string, controller libvirt.Controller) bool {
	return !g.has[controller] && (g.any() || isQuota(attribute))
}

// isQuota reports whether an attribute is a quota of CPU time, or the period of one.
func isQuota(attribute string) bool {
	return strings.HasSuffix(attribute, "quota") || strings.HasSuffix(attribute, "period")
}

// cgroupsOf returns the controllers that a host gives VMs. No host says that of itself, but a VM that runs there is in
// their cgroups, or isn't. If no VM runs there, they are unknown. but is a VM that isn't asked.
func (p *Planner) cgroupsOf(ctx context.Context, a inventory.Reply, but string) (found cgroups, known bool) {
	view := a.View
	if view == nil {
		v, err := p.hosts.ViewOf(ctx, a.Host)
		if err != nil || v.Err != nil {
			return cgroups{}, false
		}

		view = v
	}

	running := slices.DeleteFunc(slices.Collect(maps.Values(view.Domains)), func(e *inventory.Entry) bool {
		return !e.State.Active() || e.UUID == but
	})
	slices.SortFunc(running, func(a, b *inventory.Entry) int { return strings.Compare(a.Name, b.Name) })

	found.has = map[libvirt.Controller]bool{}

	for asked, e := range running {
		if asked == witnesses || len(found.has) == len(controllers) {
			break
		}

		for _, c := range controllers {
			has, err := a.Host.Conn.HasController(ctx, e.UUID, c)
			if err != nil {
				continue // It has ended meanwhile, or the host doesn't answer, which another check reports.
			}

			known = true
			if found.of == "" || has {
				found.of = e.Name
			}

			if has {
				found.has[c] = true
			}
		}
	}

	return found, known
}

// limitsOf returns the limits among the values that are given by cgroups, and their controllers.
func limitsOf(values domain.Values) map[string]libvirt.Controller {
	limits := map[string]libvirt.Controller{}

	for path, value := range values {
		if controller := controllerOf(path); controller != "" && value != "" && value != "0" {
			limits[path] = controller
		}
	}

	return limits
}

// refusedLimits returns the limits with which the host's libvirt doesn't start a VM, in their order, and what it lacks.
func (p *Planner) refusedLimits(
	ctx context.Context, a inventory.Reply, values domain.Values, but string,
) (attributes []string, why string) {
	limits := limitsOf(values)
	if len(limits) == 0 || a.Info == nil || a.Info.Driver != "QEMU" {
		return nil, ""
	}

	there, known := p.cgroupsOf(ctx, a, but)
	if !known {
		return nil, ""
	}

	var lacking []string

	for _, path := range slices.Sorted(maps.Keys(limits)) {
		if there.refuses(path, limits[path]) {
			attributes, lacking = append(attributes, path), append(lacking, string(limits[path]))
		}
	}

	slices.Sort(lacking)

	return attributes, fmt.Sprintf("has put its VM %q into no cgroup of the controller %s, and its libvirt starts no VM "+
		"with such limits there", there.of, inventory.QuoteList(slices.Compact(lacking)))
}

// fitsControllers checks that the host can start the VM with the limits that it declares.
func (p *Planner) fitsControllers(
	ctx context.Context, a inventory.Reply, d Desired, vm *inventory.VM,
) []inventory.Problem {
	if vm == nil && !status.StartsOnCreate(d.Strategy()) || vm != nil && (a.Host == vm.On || !d.runsOn(vm)) {
		return nil
	}

	var problems []inventory.Problem

	attributes, why := p.refusedLimits(ctx, a, d.Spec.Values, d.Replaces)
	for _, path := range attributes {
		problems = append(problems, inventory.Problem{
			Attribute: path, Detail: "it " + why, Remedy: inventory.NoControllerRemedy,
		})
	}

	return problems
}

// LimitBlockers returns a blocker if the host's libvirt can't give the VM limits that it has. A VM that is off and
// never started has none.
func (p *Planner) LimitBlockers(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, values domain.Values,
) []migration.Blocker {
	if !vm.Active && vm.Metadata.RunStrategy == status.Halted {
		return nil
	}

	attributes, why := p.refusedLimits(ctx, a, values, vm.UUID)
	if len(attributes) == 0 {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.HostResourcesNotAvailable, Status: status.False, Attribute: attributes[0],
		Message: fmt.Sprintf("host %q %s (%s)", a.Host.Name, why, strings.Join(attributes, ", ")),
		Remedy:  controllerRemedy,
	}}
}

// controllerRemedy says what to do about a host to which a VM can't be moved because of its limits.
const controllerRemedy = "Choose another host, or set the limits to 0. " + inventory.ControllerRemedy
