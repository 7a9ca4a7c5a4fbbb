package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsMachineType checks the number of virtual CPUs against what the machine
// type takes, of which libvirt would tell only when the machine is defined.
func (a answer) fitsMachineType(s domain.Spec) []Problem {
	arch := cmp.Or(s.Arch, a.info.Arch)
	machine := cmp.Or(s.Machine, domain.DefaultMachine(arch))

	for _, g := range a.info.Guests {
		limit := g.MaxCPUs[machine]
		if g.Arch != arch || limit == 0 {
			continue
		}

		if n := s.CPU.MaxVCPUs(); n > limit {
			return []Problem{{
				Attribute: s.CPU.CountAttribute(),
				Detail:    fmt.Sprintf("%d vCPUs are wanted, machine type %q has at most %d", n, machine, limit),
			}}
		}
	}

	return nil
}

// versionedMachine is a machine type as QEMU has one for each of its versions:
// "pc-q35-7.2".
var versionedMachine = regexp.MustCompile(`-(\d{1,4})\.(\d{1,4})$`)

// knowsMachine tells whether a machine type is among those of a host, which has
// each under its versioned name, and some under a short one too.
func knowsMachine(all []string, machine string) bool {
	if versionedMachine.MatchString(machine) {
		return slices.Contains(all, machine)
	}

	return slices.ContainsFunc(all, func(m string) bool { return domain.SameMachine(m, machine) })
}

// lacksMachine says that the host has no such machine type, and which version
// of QEMU has it where its name tells.
func (a answer) lacksMachine(machine, arch string) Problem {
	p := Problem{
		Attribute: "machine", Detail: fmt.Sprintf("it does not know machine type %q for %s", machine, arch),
	}

	named := versionedMachine.FindStringSubmatch(machine)
	if a.info.Driver != "QEMU" || named == nil {
		return p
	}

	var need libvirt.Version

	need.Major, _ = strconv.Atoi(named[1]) // All digits.
	need.Minor, _ = strconv.Atoi(named[2])

	if has := a.info.HypervisorVersion; !has.AtLeast(need.Major, need.Minor, 0) {
		p.Detail += fmt.Sprintf(": that needs QEMU %s, it has %s", need, has)
	}

	return p
}

// definable tries the wish on a copy of the machine's definition, or on a new
// one where vm is nil: what that refuses, the apply would.
func (d Desired) definable(vm *VM) []Problem {
	if d.Incomplete {
		return nil
	}

	spec := d.Spec

	var err error

	switch {
	case vm == nil:
		spec.Type = cmp.Or(spec.Type, "qemu")
		_, err = domain.New(spec, uuid.NewString())
	case vm.Persistent:
		spec.Name = "" // it is given by another call
		err = vm.entry.parse().persistent.Clone().Apply(spec)
	}

	return impossible(err)
}

// impossible finds what is wrong with which attribute in what the domain
// package says of a wish.
func impossible(err error) []Problem {
	var found domain.Problem

	joined, many := err.(interface{ Unwrap() []error })

	switch {
	case err == nil:
		return nil
	case many:
		var all []Problem
		for _, e := range joined.Unwrap() {
			all = append(all, impossible(e)...)
		}

		return all
	case errors.As(err, &found):
		return []Problem{{Attribute: found.Path, Summary: "Invalid virtual machine", Detail: found.Message}}
	default:
		return []Problem{{Summary: "Invalid virtual machine", Detail: err.Error()}}
	}
}
