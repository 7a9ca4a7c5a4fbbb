package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CheckCreate says what would keep the machine from being created, as far as it
// can be told without touching a host. An error means that nobody could tell.
func (f *Fleet) CheckCreate(ctx context.Context, d Desired) ([]Problem, error) {
	if p := f.checkPin(d); p != nil {
		return []Problem{*p}, nil
	}

	existing, err := f.FindByName(ctx, d.Spec.Name)

	switch {
	case err == nil && existing.UUID != d.Replaces && !adoptable(existing, d):
		return []Problem{nameTaken(existing)}, nil
	case err != nil && errors.Is(err, ErrAmbiguous):
		return []Problem{{Attribute: "name", Summary: "Name already taken", Detail: err.Error()}}, nil
	case err != nil && !isNotFound(err) && !errors.Is(err, ErrUnreachable):
		return nil, err
	}

	if problems := d.definable(nil); len(problems) > 0 {
		return problems, nil
	}

	candidates, err := f.candidates(ctx, d)
	if err != nil {
		return nil, err
	}

	f.judgeFiles(ctx, candidates, d)

	if i := slices.IndexFunc(candidates, func(c candidate) bool { return len(c.problems) == 0 }); i >= 0 {
		warnings, err := f.unchecked(ctx, d.Spec.Name)

		return append(warnings, candidates[i].doubts...), err
	}

	if err := allSilent(d, candidates); err != nil {
		return nil, err
	}

	return explain(d, candidates, Problem{
		Summary: "No host can take the machine", Detail: fmt.Sprintf("Machine %q can't be placed", d.Spec.Name),
	}), nil
}

// unchecked warns of the hosts that can't be asked whether the name is taken.
func (f *Fleet) unchecked(ctx context.Context, name string) ([]Problem, error) {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil, err
	}

	silent := silentHosts(answers)
	if len(silent) == 0 {
		return nil, nil
	}

	return []Problem{{
		Attribute: "name", Warning: true, Summary: "Name not checked on every host",
		Detail: fmt.Sprintf("Nobody can tell whether there is another machine named %q on %s: no answer comes from there.",
			name, quoteList(silent)),
		Remedy: "If there is one, neither can move to the other's host. A host that is off for good is left out with " +
			"fenced = true.",
	}}, nil
}

func (f *Fleet) checkPin(d Desired) *Problem {
	pin := d.Metadata.Host
	if pin == "" || f.host(pin) != nil {
		return nil
	}

	return &Problem{
		Attribute: "host", Summary: "Unknown host",
		Detail: fmt.Sprintf("Host %q is not in the provider's hosts. Configured are %s.", pin, quoteList(f.HostNames())),
		Remedy: "Use one of the configured names, or add the host to the provider's hosts.",
	}
}

// allSilent is an error when no host that could take the machine answers: then
// nothing is wrong with the machine.
func allSilent(d Desired, candidates []candidate) error {
	var silent []candidate

	for _, c := range candidates {
		switch {
		case c.fenced(), d.Metadata.Host != "" && c.host.name != d.Metadata.Host:
		case c.err == nil:
			return nil
		default:
			silent = append(silent, c)
		}
	}

	if len(silent) == 0 {
		return nil
	}

	e := &Error{VM: d.Spec.Name, Kind: ErrUnreachable, Detail: "no host answers"}
	if len(silent) == 1 {
		e.Host, e.Err = silent[0].host.name, silent[0].err
		e.Detail = fmt.Sprintf("host %q does not answer", e.Host)

		return e
	}

	slices.SortFunc(silent, func(a, b candidate) int { return byHostName(a.host, b.host) })

	errs := make([]error, len(silent))
	for i, c := range silent {
		errs[i] = c.err
	}

	e.Err = errors.Join(errs...)

	return e
}

func nameTaken(vm *VM) Problem {
	return Problem{
		Attribute: "name", Summary: "Name already taken",
		Detail: fmt.Sprintf("A machine named %q exists already on host %q, with UUID %s.", vm.Name, vm.Host, vm.UUID),
		Remedy: fmt.Sprintf("To manage that machine, import it: terraform import <address> %s\n"+
			"Otherwise choose another name. If the new machine is to replace that one, leave create_before_destroy out of "+
			"its lifecycle.", vm.UUID),
	}
}

// explain turns what the hosts said into problems of the configuration: one per
// attribute that no host can satisfy, naming each host's reason. What all of
// them begin with is given.
func explain(d Desired, candidates []candidate, like Problem) []Problem {
	slices.SortFunc(candidates, func(a, b candidate) int { return byHostName(a.host, b.host) })

	var order []string

	reasons := make(map[string][]string)

	for _, c := range candidates {
		if d.Metadata.Host != "" && c.host.name != d.Metadata.Host {
			continue
		}

		for _, p := range c.problems {
			if _, ok := reasons[p.Attribute]; !ok {
				order = append(order, p.Attribute)
			}

			reasons[p.Attribute] = append(reasons[p.Attribute], fmt.Sprintf("  - host %q: %s", c.host.name, p.Detail))
		}
	}

	problems := make([]Problem, 0, len(order))
	for _, attribute := range order {
		problems = append(problems, Problem{
			Attribute: attribute, Summary: like.Summary,
			Detail: fmt.Sprintf("%s because of %s:\n%s", like.Detail, attribute, strings.Join(reasons[attribute], "\n")),
			Remedy: remedyFor(attribute),
		})
	}

	return problems
}

func remedyFor(attribute string) string {
	switch {
	case attribute == "memory.size":
		return "Use a smaller memory.size, stop or move other machines, or raise the host's memory_limit."
	case attribute == "host":
		return "Bring the host back, uncordon it, or choose another one."
	case attribute == "machine" || attribute == "arch":
		return "Use one that the host offers: \"virsh capabilities\" lists them."
	case strings.HasPrefix(attribute, "cpu."):
		return "Use fewer virtual CPUs, or a host or machine type that takes more."
	case attribute == "placement.host_labels":
		return "Give a host these labels in the provider's hosts, or ask for others."
	case attribute == "placement.anti_affinity":
		return "Add a host, move one of the machines, or set required = false to avoid them only where possible."
	case attribute == "type":
		return `Use a type that the host offers; type = "qemu" runs anywhere, slowly.`
	case strings.HasPrefix(attribute, "interfaces."):
		return "Create and start it on the host, or use one that is there."
	case strings.HasPrefix(attribute, "disks.") && strings.HasSuffix(attribute, ".volume"):
		return "Create the volume on the host, or correct its path. If it was made without libvirt, " +
			"\"virsh pool-refresh\" finds it."
	case strings.HasPrefix(attribute, "disks."), strings.HasPrefix(attribute, "kernel."):
		return remedyOfFiles
	default:
		return ""
	}
}

// CheckUpdate says what would keep the change from working, as far as it can be
// told without touching the host.
func (f *Fleet) CheckUpdate(ctx context.Context, uuid string, last LastKnown, d Desired) ([]Problem, error) {
	if p := f.checkPin(d); p != nil {
		return []Problem{*p}, nil
	}

	vm, err := f.Find(ctx, uuid, last)
	if err != nil {
		return nil, err
	}

	var warnings []Problem

	if d.Spec.Name != vm.Name {
		other, err := f.FindByName(ctx, d.Spec.Name)
		if err == nil && other.UUID != uuid {
			return []Problem{nameTaken(other)}, nil
		}

		if warnings, err = f.unchecked(ctx, d.Spec.Name); err != nil {
			return nil, err
		}
	}

	if d.powerAction(vm) == status.Start {
		if err := vm.startable(); err != nil {
			return nil, err
		}
	}

	// What is new has to be where the machine is going to be.
	a := answer{host: vm.host}
	if pinned := f.host(d.Metadata.Host); pinned != nil && !pinned.cfg.Fenced {
		a.host = pinned
	}

	if a.info, err = a.host.conn.Info(ctx); err != nil {
		if a.host != vm.host && errors.Is(err, ErrUnreachable) {
			return nil, nil // That is for CheckMove to say.
		}

		return nil, err
	}

	if problems := d.definable(vm); len(problems) > 0 {
		return problems, nil
	}

	problems := append(a.fitsVersions(d.Spec), f.fitsSurroundings(ctx, a, d.changed(vm))...)
	problems = append(problems, a.fitsVariables(vm, d.Spec.Firmware)...)

	missing, doubts := f.fitsFiles(ctx, a.host, d.changed(vm), d.runsOn(vm))
	problems, warnings = append(problems, missing...), append(warnings, doubts...)

	candidates := []candidate{{answer: a, problems: problems}}

	return append(warnings, explain(d, candidates, Problem{
		Summary: "Host can't take the change", Detail: fmt.Sprintf("Machine %q can't be changed", vm.Name),
	})...), nil
}

// changed leaves of the wish only the disks and interfaces whose source is new:
// a machine that runs on a network which was removed since is no reason to
// refuse more memory.
func (d Desired) changed(vm *VM) Desired {
	have := vm.declaredSpec()

	d.Spec.Interfaces = maps.Clone(d.Spec.Interfaces)
	for key, want := range d.Spec.Interfaces {
		if is, ok := have.Interfaces[key]; ok && is.Network == want.Network && is.Bridge == want.Bridge {
			delete(d.Spec.Interfaces, key)
		}
	}

	d.Volumes = maps.Clone(d.Volumes)
	for key, path := range d.Volumes {
		if is, ok := have.Disks[key]; ok && (is.Source.File == path || is.Source.Block == path) {
			delete(d.Volumes, key)
		}
	}

	d.Files = d.newFiles(vm)

	return d
}

// fitsSurroundings checks that the networks, bridges and volumes are there.
func (f *Fleet) fitsSurroundings(ctx context.Context, a answer, d Desired) []Problem {
	problems := a.fitsNetworks(ctx, d)

	for _, key := range slices.Sorted(maps.Keys(d.Volumes)) {
		path := d.Volumes[key]

		_, err := a.host.conn.VolumeByPath(ctx, path)
		if err == nil {
			continue
		}

		p := Problem{Attribute: "disks." + key + ".volume", Detail: fmt.Sprintf("reading volume %q: %v", path, err)}
		if isNotFound(err) {
			p.Detail = fmt.Sprintf("it has no volume %q in an active storage pool", path)
		}

		problems = append(problems, p)
	}

	return problems
}

func (a answer) fitsNetworks(ctx context.Context, d Desired) []Problem {
	var (
		problems []Problem
		networks []libvirt.Network
		err      error
		asked    bool
	)

	for _, key := range slices.Sorted(maps.Keys(d.Spec.Interfaces)) {
		i := d.Spec.Interfaces[key]

		if i.Network != "" {
			if !asked {
				networks, err = a.host.conn.Networks(ctx)
				asked = true
			}

			if why := networkMissing(networks, err, i.Network); why != "" {
				problems = append(problems, Problem{Attribute: "interfaces." + key + ".network", Detail: why})
			}
		}

		if i.Bridge != "" {
			exists, known, err := a.host.conn.BridgeExists(ctx, i.Bridge)
			if err == nil && known && !exists {
				problems = append(problems, Problem{
					Attribute: "interfaces." + key + ".bridge", Detail: fmt.Sprintf("it has no bridge %q", i.Bridge),
				})
			}
		}
	}

	return problems
}

func networkMissing(networks []libvirt.Network, err error, name string) string {
	if err != nil {
		return fmt.Sprintf("its networks can't be read: %v", err)
	}

	var names []string

	for _, n := range networks {
		if n.Name != name {
			names = append(names, n.Name)

			continue
		}

		if !n.Active {
			return fmt.Sprintf("its network %q is not started", name)
		}

		return ""
	}

	if len(names) == 0 {
		return fmt.Sprintf("it has no network %q, nor any other", name)
	}

	slices.Sort(names)

	return fmt.Sprintf("it has no network %q, only %s", name, quoteList(names))
}
