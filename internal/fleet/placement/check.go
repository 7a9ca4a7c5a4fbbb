package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// CheckCreate returns what would prevent the VM from being created, as far as this is known without changing anything.
// An error means that it is unknown.
func (p *Scheduler) CheckCreate(ctx context.Context, d Desired) ([]inventory.Problem, error) {
	d.Planned = true

	if p := p.CheckPin(d.Metadata.Host); p != nil {
		return []inventory.Problem{*p}, nil
	}

	own, taken, err := p.checkNewName(ctx, &d)
	if err != nil || taken != nil {
		return taken, err
	}

	document, problems := d.definable(nil)
	if len(problems) > 0 {
		return problems, nil
	}

	candidates, err := p.candidates(ctx, d)
	if err != nil {
		return nil, err
	}

	p.judgeFiles(ctx, candidates, d)

	unclear := p.copiesDiffer(ctx, candidates, d)
	if unclear != nil && !unclear.Warning {
		return []inventory.Problem{*unclear}, nil
	}

	i, err := p.firstThatCan(ctx, d, candidates, document)
	if err != nil {
		return nil, err
	}

	if problems := p.giveNew(ctx, d, candidates); len(problems) > 0 {
		return problems, nil
	}

	if i >= 0 {
		answers := make([]inventory.Reply, len(candidates))
		for j, c := range candidates {
			answers[j] = c.Reply
		}

		if problems := p.notAlone(ctx, answers, d, own, candidates[i].Host.Name); len(problems) > 0 {
			return problems, nil
		}

		warnings, err := p.unchecked(ctx, d.Spec.Name)
		if unclear != nil {
			warnings = append(warnings, *unclear)
		}

		warnings = append(warnings, p.warnOfDevices(ctx, candidates, d, candidates[i].Host)...)

		return slices.Concat(warnings, candidates[i].doubts, p.planCreate(ctx, d, own, candidates)), err
	}

	if err := allSilent(d, candidates); err != nil {
		return nil, err
	}

	return explain(d, candidates, inventory.Problem{
		Summary: placeSummary, Detail: fmt.Sprintf("VM %q can't be placed", d.Spec.Name),
	}), nil
}

// checkNewName returns the problem that another VM has the name of a new one. It also returns the UUID of the VM that
// the new one replaces, or that an interrupted create left, which this one then completes; "" if there is none.
func (p *Scheduler) checkNewName(ctx context.Context, d *Desired) (own string, taken []inventory.Problem, err error) {
	own = d.Replaces
	existing, err := p.hosts.FindByName(ctx, d.Spec.Name)

	switch {
	case err == nil && Adoptable(existing, *d):
		own = existing.UUID
		if d.Replaces == "" {
			d.Replaces, d.Completes = own, true
		}
	case err == nil && existing.UUID != d.Replaces:
		taken = []inventory.Problem{NameTaken(existing)}
	case errors.Is(err, inventory.ErrAmbiguous):
		taken = []inventory.Problem{{Attribute: "name", Summary: "Name already taken", Detail: err.Error()}}
	case err != nil && !inventory.IsNotFound(err) && !errors.Is(err, inventory.ErrUnreachable):
		return "", nil, err
	}

	return own, taken, nil
}

// firstThatCan returns the index of the first candidate without a problem whose libvirt accepts the definition, or -1.
// If a host refuses it, the refusal becomes a problem of that candidate.
func (p *Scheduler) firstThatCan(
	ctx context.Context, d Desired, candidates []candidate, document string,
) (int, error) {
	for i := range candidates {
		c := &candidates[i]
		if len(c.problems) > 0 {
			continue
		}

		if err := p.try(ctx, d, c, document); err != nil {
			return -1, err
		}

		if len(c.problems) == 0 {
			return i, nil
		}
	}

	return -1, nil
}

// try adds the problem that the candidate's libvirt refuses the definition, if it does. document is the definition that
// any host would get.
func (p *Scheduler) try(ctx context.Context, d Desired, c *candidate, document string) error {
	own, problems := d.definableOn(c.Reply, document, p.defaultType)
	if len(problems) == 0 {
		var err error
		if problems, err = d.tryDefinition(ctx, c.Host, own); err != nil {
			return err
		}
	}

	problems = p.nameModels(ctx, c.Reply, d.Spec, problems)
	starts := d.Metadata.Host == "" || status.StartsOnCreate(d.Strategy()) // A host that is chosen can start the VM.
	c.problems, problems = d.doubtStart(c.Host, problems, starts)
	c.doubts = append(c.doubts, problems...)

	return nil
}

// unchecked returns a warning about hosts that can't be queried whether the name is taken.
func (p *Scheduler) unchecked(ctx context.Context, name string) ([]inventory.Problem, error) {
	answers, err := p.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	var silent []string
	var why strings.Builder
	for _, a := range answers {
		if a.Err != nil {
			silent = append(silent, a.Host.Name)
			fmt.Fprintf(&why, "\n  - host %q: %v", a.Host.Name, inventory.WithoutHost(a.Err))
		}
	}
	if len(silent) == 0 {
		return nil, nil
	}

	return []inventory.Problem{{
		Attribute: "name", Warning: true, Summary: "Name not checked on every host",
		Detail: fmt.Sprintf("%s didn't answer. Whether a VM named %q exists there is unknown.%s",
			inventory.QuoteList(silent), name, why.String()),
		Remedy: "If the host is new, correct its uri, or what the reason names. If there is such a VM, neither can move to " +
			"the other's host. Bring the host back, then try again. Or make sure that it is off, then set its fenced = true: " +
			"it is no longer asked.",
	}}, nil
}

// CheckPin returns the problem with the host that the configuration names, nil if there is none.
func (p *Scheduler) CheckPin(pin string) *inventory.Problem {
	if pin == "" || p.hosts.Host(pin) != nil {
		return nil
	}

	return &inventory.Problem{
		Attribute: "host", Summary: "Unknown host",
		Detail: fmt.Sprintf("Host %q is not among the configured hosts. Configured are %s.", pin,
			inventory.QuoteList(p.hosts.HostNames())),
		Remedy: "Use one of the configured names, or add the host to hosts.",
	}
}

// checkRename returns what prevents or may prevent the VM from getting another name, and whether the name is taken.
func (p *Scheduler) checkRename(
	ctx context.Context, vm *inventory.VM, d Desired,
) (problems []inventory.Problem, taken bool, err error) {
	if d.Spec.Name == vm.Name {
		return nil, false, nil
	}

	other, err := p.hosts.FindByName(ctx, d.Spec.Name)

	switch {
	case err == nil && other.UUID != vm.UUID:
		return []inventory.Problem{NameTaken(other)}, true, nil
	case errors.Is(err, inventory.ErrAmbiguous), errors.Is(err, inventory.ErrTwoCopies): // several VMs, or one twice
		return []inventory.Problem{{Attribute: "name", Summary: "Name already taken", Detail: err.Error()}}, true, nil
	}

	problems, err = p.unchecked(ctx, d.Spec.Name)

	return problems, false, err
}

// CheckUpdate returns what would prevent the change from working, as far as this is known without changing anything.
func (p *Scheduler) CheckUpdate(
	ctx context.Context, uuid string, last inventory.LastKnown, d Desired,
) ([]inventory.Problem, error) {
	d.Planned = true

	if p := p.CheckPin(d.Metadata.Host); p != nil {
		return []inventory.Problem{*p}, nil
	}

	vm, err := p.hosts.Find(ctx, uuid, last)
	if err != nil {
		return nil, err
	}

	if err := cmp.Or(vm.RequireOneCopy(), p.VerifyUndeleted(ctx, vm)); err != nil {
		return nil, err
	}

	d, vm = p.withLost(ctx, d, vm)

	if problems := d.checkDisks(ctx, vm); len(problems) > 0 {
		return problems, nil
	}

	if problems, err := p.checkOwnership(ctx, vm, d); err != nil || len(problems) > 0 {
		return problems, err
	}

	warnings, taken, err := p.checkRename(ctx, vm, d)
	if err != nil || taken {
		return warnings, err
	}

	refused, err := p.admissionProblems(ctx, vm, d)
	if err != nil {
		return nil, err
	}

	warnings = slices.Concat(warnings, d.warnDisks(ctx, vm), refused)

	a, err := p.hostOfChange(ctx, vm, d)
	if err != nil {
		return nil, err
	}

	if a.Host == nil {
		return warnings, nil
	}

	d, short := p.changedDevices(ctx, a.Host, vm, d)

	document, problems := d.definable(vm)
	if len(problems) > 0 {
		return problems, nil
	}

	problems, doubts := p.fitsChange(ctx, a, vm, d)
	problems, warnings = append(short, problems...), slices.Concat(warnings, doubts, p.planDisks(ctx, a.Host, vm, d))

	if len(problems) == 0 {
		if problems, err = d.tryChange(ctx, a.Host, vm, document); err != nil {
			return nil, err
		}

		problems, doubts = d.doubtStart(a.Host, p.nameModels(ctx, a, d.Spec, problems), d.runsOn(vm))
		warnings = append(warnings, doubts...)
	}

	candidates := []candidate{{Reply: a, problems: problems}}

	return append(warnings, explain(d, candidates, inventory.Problem{
		Summary: changeSummary, Detail: fmt.Sprintf("VM %q can't be changed", vm.Name),
	})...), nil
}

// checkOwnership returns what prevents the VM from getting and losing disks.
func (p *Scheduler) checkOwnership(ctx context.Context, vm *inventory.VM, d Desired) ([]inventory.Problem, error) {
	if problems, err := p.CheckDeclaredAgain(ctx, vm, d); err != nil || len(problems) > 0 {
		return problems, err
	}

	deletes, _ := d.DropsOwnDisks(vm)
	deletes = slices.DeleteFunc(deletes, vm.Abandoned) // A change of the VM doesn't depend on these.

	if err := p.CheckRemovable(ctx, vm, deletes); err != nil {
		return nil, err
	}

	return append(p.checkDropped(ctx, vm, d, deletes), p.giveMore(ctx, vm, d)...), nil
}

// checkDisks returns what prevents the VM's disks from being changed.
func (d Desired) checkDisks(ctx context.Context, vm *inventory.VM) []inventory.Problem {
	problems := slices.Concat(
		CheckHanded(ctx, vm, d), growsOverlaid(vm, d), growsEncrypted(ctx, vm, d), grownByHand(ctx, vm, d))
	if d.endsProcess(vm) == "" {
		problems = append(problems, CheckDiskJobs(ctx, vm, d)...)
	}

	return problems
}

// hostOfChange returns the host where the VM will be, which must have what the change adds. It has no host if the VM is
// to move to one that doesn't answer: CheckMove reports that.
func (p *Scheduler) hostOfChange(ctx context.Context, vm *inventory.VM, d Desired) (a inventory.Reply, err error) {
	a.Host = vm.On
	if pinned := p.hosts.Host(d.Metadata.Host); pinned != nil && !pinned.Config.Fenced {
		a.Host = pinned
	}

	a.Info, err = a.Host.Conn.Info(ctx)
	if err != nil && a.Host != vm.On && errors.Is(err, inventory.ErrUnreachable) {
		return inventory.Reply{}, nil
	}

	return a, err
}

// fitsChange returns what the changed VM needs and the host lacks, and what it may lack.
func (p *Scheduler) fitsChange(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired,
) (problems, doubts []inventory.Problem) {
	problems = slices.Concat(
		fitsVersions(a, d.Spec), p.fitsSurroundings(ctx, a, d.Changed(vm), d.grownDisks(vm)), fitsKept(a, d.Metadata),
		fitsVariables(a, vm, d.Spec.Firmware), p.fitsChangedNVRAM(ctx, a.Host, vm, d),
		p.fitsChangedUse(ctx, a.Host, vm, d), fitsLiveConnections(ctx, a, vm, d), fitsLimits(ctx, a, vm, d),
		p.fitsControllers(ctx, a, d, vm), fitsSecrets(ctx, a, d.Changed(vm), vm), p.fitsStart(a, vm, d),
		fitsArriving(ctx, a, d.Changed(vm), vm.UUID), fitsStartedInterfaces(ctx, a, vm, d))
	missing, doubts := p.fitsFiles(ctx, a.Host, d.Changed(vm), d.runsOn(vm))
	gone, hidden := p.fitsStartedDisks(ctx, a, vm, d)
	lost, unseen := p.fitsStartedImages(ctx, a, vm, d)

	doubts = slices.Concat(doubts, hidden, unseen)
	if a.Host == vm.On && d.starts(vm) {
		doubts = append(doubts, WarnSaved(vm, "The start doesn't use it: the guest boots afresh")...)
	}

	return slices.Concat(problems, missing, gone, lost), doubts
}

// markAge is how long a VM that runs is taken for what an interrupted Create left. A Create that couldn't remove its
// mark is over by then, and another configuration may manage the VM.
const markAge = time.Hour

// Adoptable reports whether the VM was left behind by an interrupted Create of the same configuration.
func Adoptable(vm *inventory.VM, d Desired) bool {
	return vm.Metadata.Creating != nil && vm.Metadata.Creating.SpecHash == d.Hash() && !outlivesMark(vm) &&
		(d.Metadata.Host == "" || d.Metadata.Host == vm.Host)
}

// outlivesMark reports whether the VM runs, and its Create began so long ago that its mark says nothing any more.
func outlivesMark(vm *inventory.VM) bool {
	return vm.Active && vm.Metadata.Creating != nil && time.Since(vm.Metadata.Creating.Since).Abs() >= markAge
}
