package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// controllerOf returns the controller of the host's cgroups by which a running VM is given a limit; "" if the attribute
// isn't such a limit.
func controllerOf(path string) libvirt.Controller {
	_, a, known := domain.GroupAttribute(path)

	switch {
	case !known:
		return ""
	case a.Live == domain.SetScheduler:
		return libvirt.ControllerCPU
	case a.Live == domain.SetMemoryLimit:
		return libvirt.ControllerMemory
	case a.Live == domain.SetBlkioWeight, a.Live == domain.SetBlkioDevices:
		return libvirt.ControllerBlkio
	default:
		return ""
	}
}

// fitsLimits checks that the host has the controllers by which the running VM is to be given other limits. No host says
// that of itself, but the VM is in the cgroups of its host, or isn't.
func fitsLimits(ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired) []inventory.Problem {
	live := vm.RunningSpec(d.Spec)
	if live == nil || !vm.Active || a.Host != vm.On || !d.runsOn(vm) || d.restarts(vm) {
		return nil
	}

	lacking := map[libvirt.Controller]bool{}

	var problems []inventory.Problem

	for _, c := range domain.Changes(*live, d.Spec) {
		controller := controllerOf(c.Path)
		if controller == "" || !c.Live {
			continue
		}

		lacks, asked := lacking[controller]
		if !asked {
			has, err := a.Host.Conn.HasController(ctx, vm.UUID, controller)
			lacks = err == nil && !has // Another check reports a host that doesn't answer.
			lacking[controller] = lacks
		}

		if lacks {
			problems = append(problems, inventory.Problem{
				Attribute: c.Path,
				Detail: fmt.Sprintf("its libvirt can't limit the running VM, which is in no cgroup of the controller %q",
					controller),
				Remedy: inventory.NoControllerRemedy,
			})
		}
	}

	slices.SortFunc(problems, func(a, b inventory.Problem) int { return strings.Compare(a.Attribute, b.Attribute) })

	return problems
}

// leastWeight and mostWeight are the weights of disk I/O that libvirt's schema has. A running VM, and one defined
// without the schema, may have others.
const leastWeight, mostWeight = 100, 1000

// fitsWeights checks that the host's libvirt accepts the weights of a VM's disk I/O in its definition.
func fitsWeights(s domain.Spec) []inventory.Problem {
	const device = "platform.resources.blkio_devices"

	weights := map[string]string{"platform.resources.blkio_weight": s.Values["platform.resources.blkio_weight"]}
	for path, row := range domain.ParseTable(s.Values[device]) {
		weights[fmt.Sprintf("%s[%q].weight", device, path)] = row["weight"]
	}

	var problems []inventory.Problem

	for _, attribute := range slices.Sorted(maps.Keys(weights)) {
		weight, err := strconv.Atoi(weights[attribute])
		if err != nil || weight == 0 || leastWeight <= weight && weight <= mostWeight {
			continue
		}

		path, _, _ := strings.Cut(attribute, "[")
		problems = append(problems, inventory.Problem{
			Attribute: path, Detail: fmt.Sprintf("its libvirt accepts weights from %d to %d, %s is %d", leastWeight,
				mostWeight, attribute, weight),
			Remedy: fmt.Sprintf("Set a weight from %d to %d.", leastWeight, mostWeight),
		})
	}

	return problems
}
