package placement

import (
	"cmp"
	"context"
	"errors"
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

// witnesses is how many of a host's VMs are asked about its cgroups, those that were started last: others may have been
// started before the host's settings were changed.
const witnesses = 3

// cgroups are the controllers that a host gives VMs, as a VM that runs there shows.
type cgroups struct {
	// has says of each controller that is known whether the host gives it.
	has map[libvirt.Controller]bool
}

// any reports whether the host gives VMs any cgroup.
func (g cgroups) any() bool {
	return slices.ContainsFunc(controllers, func(c libvirt.Controller) bool { return g.has[c] })
}

// all reports whether the host gives VMs all cgroups.
func (g cgroups) all() bool {
	return !slices.ContainsFunc(controllers, func(c libvirt.Controller) bool { return !g.has[c] })
}

// refuses reports whether the host's libvirt refuses to start a VM with the limit. Without the controller of the CPU it
// refuses quotas. Other limits it refuses only if it puts the VM into cgroups of other controllers; else it ignores
// them.
func (g cgroups) refuses(attribute string, controller libvirt.Controller) bool {
	has, known := g.has[controller]

	return known && !has && (g.any() || isQuota(attribute))
}

// isQuota reports whether an attribute is a quota of CPU time, or the period of one.
func isQuota(attribute string) bool {
	return strings.HasSuffix(attribute, "quota") || strings.HasSuffix(attribute, "period")
}

// cgroupsOf returns the controllers that a host gives VMs. No host says that of itself, but a VM that runs there is in
// their cgroups, or isn't. If no VM runs there, nothing is known. among says which VMs may be asked.
func (p *Scheduler) cgroupsOf(
	ctx context.Context, a inventory.Reply, among func(*inventory.Entry) bool,
) (found cgroups) {
	view := a.View
	if view == nil {
		v, err := p.hosts.ViewOf(ctx, a.Host)
		if err != nil || v.Err != nil {
			return cgroups{}
		}

		view = v
	}

	running := slices.DeleteFunc(slices.Collect(maps.Values(view.Domains)), func(e *inventory.Entry) bool {
		return !e.State.Active() || !among(e)
	})
	slices.SortFunc(running, func(a, b *inventory.Entry) int {
		return cmp.Or(cmp.Compare(b.StartNumber(), a.StartNumber()), strings.Compare(a.Name, b.Name))
	})

	found.has = map[libvirt.Controller]bool{}
	asked := 0

	for _, e := range running {
		answered := false

		for _, c := range controllers {
			has, err := view.HasController(ctx, a.Host, e.UUID, c)
			if errors.Is(err, libvirt.ErrUnreachable) || ctx.Err() != nil {
				return cgroups{} // Another check reports that.
			}

			if err != nil {
				continue // It has ended meanwhile.
			}

			answered, found.has[c] = true, found.has[c] || has
		}

		if answered {
			asked++
		}

		if asked == witnesses || found.all() {
			break
		}
	}

	return found
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
func (p *Scheduler) refusedLimits(
	ctx context.Context, a inventory.Reply, values domain.Values, among func(*inventory.Entry) bool,
) (attributes []string, why string) {
	limits := limitsOf(values)
	if len(limits) == 0 || a.Info == nil || a.Info.Driver != "QEMU" {
		return nil, ""
	}

	there := p.cgroupsOf(ctx, a, among)

	var lacking []string

	for _, path := range slices.Sorted(maps.Keys(limits)) {
		if there.refuses(path, limits[path]) {
			attributes, lacking = append(attributes, path), append(lacking, string(limits[path]))
		}
	}

	slices.Sort(lacking)

	// Which VM has shown it isn't said: from plan to plan it may be another one.
	return attributes, fmt.Sprintf("puts its VMs into no cgroup of the controller %s, so its libvirt can't start a VM "+
		"with such limits", inventory.QuoteList(slices.Compact(lacking)))
}

// fitsControllers checks that the host can start the VM with the limits that it declares. A VM that runs on the host
// and is restarted there shows itself what the host gives it. For one that isn't restarted, see fitsLimits.
func (p *Scheduler) fitsControllers(
	ctx context.Context, a inventory.Reply, d Desired, vm *inventory.VM,
) []inventory.Problem {
	among := func(e *inventory.Entry) bool { return e.UUID != d.Replaces }

	switch {
	case vm == nil && !status.StartsOnCreate(d.Strategy()), vm != nil && !d.runsOn(vm):
		return nil
	case vm != nil && vm.Active && a.Host == vm.On:
		if !d.restarts(vm) {
			return nil
		}

		among = func(e *inventory.Entry) bool { return e.UUID == vm.UUID }
	}

	var problems []inventory.Problem

	attributes, why := p.refusedLimits(ctx, a, d.Spec.Values, among)
	for _, path := range attributes {
		problems = append(problems, inventory.Problem{
			Attribute: path, Detail: "it " + why, Remedy: inventory.NoControllerRemedy,
		})
	}

	return problems
}

// LimitBlockers returns a blocker if the host's libvirt can't give the VM limits that it has. A VM that is off and
// never started has none.
func (p *Scheduler) LimitBlockers(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, values domain.Values,
) []migration.Blocker {
	if !vm.Active && vm.Metadata.RunStrategy == status.Halted {
		return nil
	}

	attributes, why := p.refusedLimits(ctx, a, values, func(e *inventory.Entry) bool { return e.UUID != vm.UUID })
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
const controllerRemedy = "Choose another host, or first set the limits to 0, then move the VM. " +
	inventory.ControllerRemedy
