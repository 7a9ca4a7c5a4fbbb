package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// allSilent returns an error if no host that could run the VM answers: then nothing is wrong with the VM.
func allSilent(d Desired, candidates []candidate) error {
	var silent []candidate

	for _, c := range candidates {
		switch {
		case c.Fenced(), d.Metadata.Host != "" && c.Host.Name != d.Metadata.Host:
		case c.Err == nil:
			return nil
		default:
			silent = append(silent, c)
		}
	}

	if len(silent) == 0 {
		return nil
	}

	e := &inventory.Error{VM: d.Spec.Name, Kind: inventory.ErrUnreachable, Detail: "no host answers"}
	if len(silent) == 1 {
		e.Host, e.Err = silent[0].Host.Name, silent[0].Err
		e.Detail = fmt.Sprintf("host %q does not answer", e.Host)

		return e
	}

	slices.SortFunc(silent, func(a, b candidate) int { return inventory.ByHostName(a.Host, b.Host) })

	errs := make([]error, len(silent))
	for i, c := range silent {
		errs[i] = c.Err
	}

	e.Err = errors.Join(errs...)

	return e
}

// NameTaken returns the problem that a VM of this name exists already.
func NameTaken(vm *inventory.VM) inventory.Problem {
	if outlivesMark(vm) {
		return inventory.Problem{
			Attribute: "name", Summary: "Name already taken",
			Detail: fmt.Sprintf("A VM named %q runs on host %q, with UUID %s. Its creation began %s, and nothing says that it "+
				"ended. It may be managed from elsewhere.", vm.Name, vm.Host, vm.UUID,
				vm.Metadata.Creating.Since.UTC().Format(time.RFC3339)),
			Existing: vm.UUID, Remedy: "Otherwise choose another name.",
		}
	}

	if vm.Metadata.Creating != nil {
		return inventory.Problem{
			Attribute: "name", Summary: "Name already taken",
			Detail: fmt.Sprintf("A VM named %q exists already on host %q, with UUID %s. Another run is creating it, or was "+
				"interrupted while it created it.", vm.Name, vm.Host, vm.UUID),
			Existing: vm.UUID,
			Remedy: fmt.Sprintf("If its run was interrupted, repeat it with what it declared, which completes the VM. Before "+
				"you declare the VM otherwise, make sure that it is off, and run %s. %sOtherwise choose another name.",
				vm.UndefineCommand(), vm.VolumesLeft()),
		}
	}

	return inventory.Problem{
		Attribute: "name", Summary: "Name already taken",
		Detail:   fmt.Sprintf("A VM named %q exists already on host %q, with UUID %s.", vm.Name, vm.Host, vm.UUID),
		Existing: vm.UUID, Remedy: "Otherwise choose another name.", Next: inventory.DeleteFirst,
	}
}

// explain turns the hosts' replies into problems of the configuration: one for each attribute that no host can satisfy,
// with each host's reason. like is the beginning that all of them share.
func explain(d Desired, candidates []candidate, like inventory.Problem) []inventory.Problem {
	slices.SortFunc(candidates, func(a, b candidate) int { return inventory.ByHostName(a.Host, b.Host) })

	var order []string

	reasons, remedies, nexts := make(map[string][]string), make(map[string]string), make(map[string]inventory.Next)

	for _, c := range candidates {
		if d.Metadata.Host != "" && c.Host.Name != d.Metadata.Host {
			continue
		}

		for _, p := range c.problems {
			if _, ok := reasons[p.Attribute]; !ok {
				order = append(order, p.Attribute)
			}

			if remedies[p.Attribute] == "" {
				remedies[p.Attribute], nexts[p.Attribute] = p.Remedy, p.Next
			}

			reasons[p.Attribute] = append(reasons[p.Attribute], fmt.Sprintf("  - host %q: %s", c.Host.Name, p.Detail))
		}
	}

	problems := make([]inventory.Problem, 0, len(order))
	for _, attribute := range order {
		because := like.Detail
		if attribute != "" {
			because += " because of " + attribute
		}

		problems = append(problems, inventory.Problem{
			Attribute: attribute, Summary: like.Summary,
			Detail: because + ":\n" + strings.Join(reasons[attribute], "\n"),
			Remedy: cmp.Or(remedies[attribute], remedyFor(attribute)), Next: nexts[attribute],
		})
	}

	return problems
}

// attributeRemedies are what to do about a problem with an attribute, the first that matches. "*" is any text.
var attributeRemedies = []struct{ attribute, remedy string }{
	{"", "Change what it names, or use a host with another version of libvirt or QEMU."},
	{"memory.size", "Use a smaller memory.size, stop or move other VMs, or raise the host's memory_limit."},
	{"host", "Choose another host. Or bring the host back if it doesn't answer, and set its fenced and schedulable in " +
		"hosts to what is true now."},
	{"machine_type", remedyOfMachines},
	{"arch", remedyOfMachines},
	{"cpu.cachetune", remedyOfAllocations},
	{"cpu.memorytune", remedyOfAllocations},
	{"cpu.pin", remedyOfPins},
	{"cpu.emulator_pin", remedyOfPins},
	{"cpu.iothread_pin", remedyOfPins},
	{"cpu.*", "Use fewer virtual CPUs, or a host or machine type that takes more."},
	{"placement.host_labels", "Give a host these labels in hosts, or ask for others."},
	{"labels", "Add a host, move the other VM, or give this VM other labels."},
	{"placement.anti_affinity", "Add a host, move one of the VMs, or set required = false to avoid them only where " +
		"possible."},
	{"type", `Use a type that the host offers; type = "qemu" runs anywhere, slowly.`},
	{"devices.host_devices.*.class", "List more devices of the class in hosts.<name>.devices, or stop or move the VM " +
		"that has one."},
	{"interfaces.*", "Create and start it on the host, or use one that is there."},
	{"disks.*.volume", "Create the volume on the host, or correct its path. If it was made without libvirt, " +
		"\"virsh pool-refresh\" finds it."},
	{"disks.*.pool", "Correct the name, create the storage pool on the host, make room in it, or use another one. If a " +
		"virtfleet_storage_pool creates it, refer to the name of that. If the room was made without libvirt, " +
		"\"virsh pool-refresh\" finds it. storage_overprovisioning_factor of the host limits what its volumes may grow " +
		"to."},
	{"disks.*.image", "Correct the id, or have the virtfleet_image on the host, before the VM. If you declare it, " +
		"refer to the id of that. If the volume was made without libvirt, \"virsh pool-refresh\" finds it."},
	{"disks.*.size", "Declare at least as much as the image has."},
	{"disks.*", remedyOfFiles},
	{"kernel.*", remedyOfFiles},
}

const (
	remedyOfMachines    = "Use one that the host offers: \"virsh capabilities\" lists them."
	remedyOfAllocations = "Use parts that a host can allocate (\"virsh capabilities\" lists them under cache and " +
		"memory_bandwidth), or leave the attribute out."
	remedyOfPins = "Use CPUs that a host has and that no other VM has for itself, or another host."
)

// remedyFor returns "" for an attribute of which nothing general can be said.
func remedyFor(attribute string) string {
	for _, r := range attributeRemedies {
		before, after, isPattern := strings.Cut(r.attribute, "*")
		if attribute == r.attribute ||
			isPattern && strings.HasPrefix(attribute, before) && strings.HasSuffix(attribute, after) {
			return r.remedy
		}
	}

	return ""
}
