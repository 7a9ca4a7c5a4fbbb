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

// fitsMachineType checks the number of virtual CPUs against the limit of the machine type. libvirt would report it only
// when the VM is defined.
func fitsMachineType(a inventory.Reply, s domain.Spec) []inventory.Problem {
	arch := cmp.Or(s.Arch, a.Info.Arch)
	machine := cmp.Or(s.Machine, domain.DefaultMachineType(arch))

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

// versionedMachine matches a machine type that QEMU has for each of its versions: "pc-q35-7.2".
var versionedMachine = regexp.MustCompile(`-(\d{1,4})\.(\d{1,4})$`)

// knowsMachineType reports whether a host has a machine type. Hosts list each machine type under its versioned name,
// and some under a short name too.
func knowsMachineType(all []string, machine string) bool {
	if versionedMachine.MatchString(machine) {
		return slices.Contains(all, machine)
	}

	return slices.ContainsFunc(all, func(m string) bool { return domain.SameMachineType(m, machine) })
}

// lacksMachineType returns the problem that the host has no such machine type but only the known ones, with the version
// of QEMU that has it if the name contains the version.
func lacksMachineType(a inventory.Reply, machine, arch string, known []string) inventory.Problem {
	p := inventory.Problem{
		Attribute: "machine_type", Detail: fmt.Sprintf("it does not know machine type %q for %s", machine, arch),
	}

	if named := versionedMachine.FindStringSubmatch(machine); a.Info.Driver == "QEMU" && named != nil {
		var need libvirt.Version

		need.Major, _ = strconv.Atoi(named[1]) // all digits
		need.Minor, _ = strconv.Atoi(named[2])

		if has := a.Info.HypervisorVersion; !has.AtLeast(need.Major, need.Minor, 0) {
			p.Detail += fmt.Sprintf(": that needs QEMU %s, it has %s", need, has)
		}
	}

	p.Detail += nearest(machine, known)

	return p
}

// definable applies the configuration to a copy of the VM's definition, or to a new one if vm is nil: the apply would
// return the same errors. document is the definition that a host would get; it is empty if nothing would change, or if
// some values aren't known yet.
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
		spec.Type = cmp.Or(spec.Type, anyType)
		definition, err = domain.New(spec, uuid.NewString())
	case vm.Persistent:
		spec.Name = "" // the name is changed by another call
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

// anyType is the type of a new VM's definition until its host is known.
const anyType = "qemu"

// definableOn returns the definition that one host would get, if document is the one of any host: the type of a VM that
// declares none depends on the host, and what a CPU can be depends on the type.
func (d Desired) definableOn(a inventory.Reply, document, defaultType string) (string, []inventory.Problem) {
	d.Spec.Type = a.TypeFor(d.Spec, defaultType)
	if document == "" || d.Spec.Type == anyType {
		return document, nil
	}

	return d.definable(nil)
}

// withSources returns the spec with placeholders for the sources that only the apply finds or creates, and without the
// host devices that only the apply chooses.
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

// tryDefinition asks the host's libvirt whether it can run a definition, without defining anything. It asks nothing if
// the document is empty.
func (d Desired) tryDefinition(
	ctx context.Context, h *inventory.Host, document string,
) ([]inventory.Problem, error) {
	if document == "" {
		return nil, nil
	}

	refusal, err := h.Conn.RefusalOf(ctx, document)
	if err != nil || refusal == "" {
		return nil, err
	}

	return []inventory.Problem{refused(refusal, d.Spec)}, nil
}

// tryChange asks the host's libvirt whether it can run the changed definition of an existing VM. If document is empty
// and the VM starts, it asks about the present definition. It ignores what the host also refuses in the present
// definition, for example one that another host's tools wrote. It doesn't ignore that if the change stops a guest,
// which then couldn't start again, or starts a VM on a CPU that the host lacks.
func (d Desired) tryChange(
	ctx context.Context, h *inventory.Host, vm *inventory.VM, document string,
) ([]inventory.Problem, error) {
	asItIs := document == "" && d.starts(vm) && vm.Persistent && !d.Incomplete
	if asItIs {
		var err error
		if document, err = vm.Entry.Parse().Persistent.XML(); err != nil {
			return nil, err
		}
	}

	problems, err := d.tryDefinition(ctx, h, document)
	if err != nil || len(problems) == 0 || d.restarts(vm) || d.starts(vm) && isOnlyAtStart(problems[0]) {
		return problems, err
	}

	if asItIs {
		return nil, nil
	}

	present, err := vm.Entry.Parse().Persistent.XML()
	if err != nil {
		return nil, err
	}

	already, err := d.tryDefinition(ctx, h, present)
	if err != nil || slices.Equal(problems, already) {
		return nil, err
	}

	return problems, nil
}

// restarts reports whether the change restarts a running guest.
func (d Desired) restarts(vm *inventory.VM) bool {
	if !vm.Active || d.UpdatePolicy != PolicyRestart {
		return false
	}

	is := cmp.Or(vm.RunningSpec(d.Spec), vm.DeclaredSpec())

	return slices.ContainsFunc(domain.Changes(*is, d.Spec), func(c domain.Change) bool { return !c.Live })
}

// impossible returns the domain package's errors about a configuration as problems of its attributes.
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
