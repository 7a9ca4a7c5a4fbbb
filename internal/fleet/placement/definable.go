package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsMachineType checks the number of virtual CPUs against what the machine type takes, of which libvirt would tell
// only when the VM is defined.
func fitsMachineType(a inventory.Reply, s domain.Spec) []inventory.Problem {
	arch := cmp.Or(s.Arch, a.Info.Arch)
	machine := cmp.Or(s.Machine, domain.DefaultMachine(arch))

	for _, g := range a.Info.Guests {
		limit := g.MaxCPUs[machine]
		if g.Arch != arch || limit == 0 {
			continue
		}

		if n := s.CPU.MaxVCPUs(); n > limit {
			return []inventory.Problem{{
				Attribute: s.CPU.CountAttribute(),
				Detail:    fmt.Sprintf("%d vCPUs are required, machine type %q supports at most %d", n, machine, limit),
			}}
		}
	}

	return nil
}

// versionedMachine is a machine type as QEMU has one for each of its versions: "pc-q35-7.2".
var versionedMachine = regexp.MustCompile(`-(\d{1,4})\.(\d{1,4})$`)

// knowsMachine tells whether a machine type is among those of a host, which has each under its versioned name, and some
// under a short one too.
func knowsMachine(all []string, machine string) bool {
	if versionedMachine.MatchString(machine) {
		return slices.Contains(all, machine)
	}

	return slices.ContainsFunc(all, func(m string) bool { return domain.SameMachine(m, machine) })
}

// lacksMachine says that the host has no such machine type, and which version of QEMU has it where its name tells.
func lacksMachine(a inventory.Reply, machine, arch string) inventory.Problem {
	p := inventory.Problem{
		Attribute: "machine_type", Detail: fmt.Sprintf("it does not know machine type %q for %s", machine, arch),
	}

	named := versionedMachine.FindStringSubmatch(machine)
	if a.Info.Driver != "QEMU" || named == nil {
		return p
	}

	var need libvirt.Version

	need.Major, _ = strconv.Atoi(named[1]) // All digits.
	need.Minor, _ = strconv.Atoi(named[2])

	if has := a.Info.HypervisorVersion; !has.AtLeast(need.Major, need.Minor, 0) {
		p.Detail += fmt.Sprintf(": that needs QEMU %s, it has %s", need, has)
	}

	return p
}

// definable tries the wish on a copy of the VM's definition, or on a new one where vm is nil: what that refuses, the
// apply would. The document is what a host would be asked to define; empty where nothing would change, or where not all
// is known yet.
func (d Desired) definable(vm *inventory.VM) (document string, problems []inventory.Problem) {
	if d.Incomplete {
		return "", nil
	}

	var (
		definition *domain.Definition
		before     string
		err        error
	)

	spec := d.withSources()

	switch {
	case vm == nil:
		spec.Type = cmp.Or(spec.Type, "qemu")
		definition, err = domain.New(spec, uuid.NewString())
	case vm.Persistent:
		spec.Name = "" // it is given by another call
		definition = vm.Entry.Parse().Persistent.Clone()
		before = definition.Canonical()
		err = definition.Apply(spec)
	default:
		return "", nil
	}

	if err != nil || definition.Canonical() == before {
		return "", impossible(err)
	}

	document, err = definition.XML()

	return document, impossible(err)
}

// withSources is the spec with something in the place of the sources that only the apply finds or makes, and without
// host devices that only it chooses.
func (d Desired) withSources() domain.Spec {
	spec := d.Spec
	spec.Disks, spec.HostDevices = maps.Clone(spec.Disks), maps.Clone(spec.HostDevices)

	maps.DeleteFunc(spec.HostDevices, func(_ string, row domain.Row) bool {
		return row["class"] != "" && row["address"] == ""
	})

	for key, disk := range spec.Disks {
		_, volume := d.Volumes[key]
		_, own := d.OwnDisks[key]

		if (volume || own) && disk.Source == (domain.DiskSource{}) {
			disk.Source.File = "/" + key
			spec.Disks[key] = disk
		}
	}

	return spec
}

// tryDefinition asks the host's libvirt whether it can run a definition, without defining anything. An empty document,
// where nothing changes, asks nothing.
func tryDefinition(ctx context.Context, h *inventory.Host, document string) ([]inventory.Problem, error) {
	if document == "" {
		return nil, nil
	}

	refusal, err := h.Conn.RefusalOf(ctx, document)
	if err != nil || refusal == "" {
		return nil, err
	}

	return []inventory.Problem{{Detail: "its libvirt refuses this definition: " + refusal}}, nil
}

// tryChange is tryDefinition for a VM that is there. What its host refuses of the definition as it is already, such as
// one that another host's tools wrote, the change isn't to blame for, unless it stops a guest that couldn't start
// again.
func (d Desired) tryChange(
	ctx context.Context, h *inventory.Host, vm *inventory.VM, document string,
) ([]inventory.Problem, error) {
	problems, err := tryDefinition(ctx, h, document)
	if err != nil || len(problems) == 0 || d.restarts(vm) {
		return problems, err
	}

	present, err := vm.Entry.Parse().Persistent.XML()
	if err != nil {
		return nil, err
	}

	already, err := tryDefinition(ctx, h, present)
	if err != nil || slices.Equal(problems, already) {
		return nil, err
	}

	return problems, nil
}

// restarts says that the wish makes a running guest start again.
func (d Desired) restarts(vm *inventory.VM) bool {
	return vm.Active && d.UpdatePolicy == PolicyRestart &&
		slices.ContainsFunc(domain.Changes(*vm.DeclaredSpec(), d.Spec), func(c domain.Change) bool { return !c.Live })
}

// impossible finds what is wrong with which attribute in what the domain package says of a wish.
func impossible(err error) []inventory.Problem {
	var found domain.Problem

	joined, many := err.(interface{ Unwrap() []error })

	switch {
	case err == nil:
		return nil
	case many:
		var all []inventory.Problem
		for _, e := range joined.Unwrap() {
			all = append(all, impossible(e)...)
		}

		return all
	case errors.As(err, &found):
		return []inventory.Problem{{Attribute: found.Path, Summary: "Invalid virtual machine", Detail: found.Message}}
	default:
		return []inventory.Problem{{Summary: "Invalid virtual machine", Detail: err.Error()}}
	}
}
