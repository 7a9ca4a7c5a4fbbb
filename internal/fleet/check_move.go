package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// CheckMove says what would keep the machine from being moved to the target that
// its configuration pins it to, as far as it can be told without touching a host:
// every blocker with its reason code and what would lift it. What nobody can tell
// beforehand is a warning. So is it that the target is cordoned, or switched off for
// its maintenance: Move refuses that, and what is planned besides may be the end of
// it. o is what was said for this very move.
func (f *Fleet) CheckMove(
	ctx context.Context, uuid string, last LastKnown, target string, o migration.Options,
) ([]Problem, error) {
	return f.checkMove(ctx, uuid, last, target, o, true)
}

// checkMove is CheckMove for a machine that is pinned to the target, or for one
// that is moved there for another reason.
func (f *Fleet) checkMove(
	ctx context.Context, uuid string, last LastKnown, target string, o migration.Options, pinned bool,
) ([]Problem, error) {
	to, err := f.targetHost(target)
	if err != nil {
		return []Problem{moveProblem(err)}, nil
	}

	vm, err := f.Find(ctx, uuid, last)
	if err != nil || vm.host == to {
		return nil, err
	}

	if first := vm.endsFirst(to); first != nil {
		return []Problem{*first}, nil
	}

	if err := vm.settled(); err != nil {
		return []Problem{moveProblem(err)}, nil
	}

	tuning, err := f.tuning(ctx, vm, o)
	if err != nil {
		return nil, err
	}

	machine, blockers, err := f.preflight(ctx, vm, to, tuning.Options, false)
	if err != nil {
		return nil, err
	}

	var problems []Problem

	closed := func(b migration.Blocker) bool {
		return b.Reason == migration.HostCordoned || b.Reason == migration.HostNotAvailable && f.SwitchedOff(ctx, to.name)
	}
	if i := slices.IndexFunc(blockers, closed); pinned && i >= 0 {
		problems = append(problems, pinClosed(vm, to, blockers[i]))
		blockers = slices.Delete(blockers, i, i+1)
	}

	problems = append(problems, blockerProblems(vm, to, blockers)...)
	if len(migration.Blocking(blockers)) == 0 {
		problems = append(problems, copyProblems(ctx, vm, machine, to, tuning.Options)...)
	}

	return problems, nil
}

// pinClosed says that a machine is pinned to a host that takes none at present.
func pinClosed(vm *VM, to *host, b migration.Blocker) Problem {
	return Problem{
		Attribute: "host", Summary: "Virtual machine is pinned to a host under maintenance", Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q is on host %q, its configuration has host = %q, and %s. As long as that "+
			"lasts the machine stays where it is, and apply stops before it moves it", vm.Name, vm.Host, to.name, b.Message),
		Remedy: "Destroy the virtfleet_host_maintenance, in this apply or before, and the machine is moved. Else change " +
			"its host, or remove it from its configuration.",
	}
}

// copyProblemsTo is copyProblems of a machine that wasn't looked at yet.
func (f *Fleet) copyProblemsTo(ctx context.Context, vm *VM, target string, o migration.Options) []Problem {
	if vm.Active && !o.CopiesStorage() {
		return nil
	}

	machine, err := vm.inspect(ctx)
	if err != nil {
		return nil // Whoever moves it is told.
	}

	return copyProblems(ctx, vm, machine, f.host(target), o)
}

// copyProblems says what will be copied: disks of a machine that runs, files of
// one that is off.
func copyProblems(
	ctx context.Context, vm *VM, machine migration.Machine, to *host, o migration.Options,
) []Problem {
	if !machine.Live() {
		return carriedProblems(vm, migration.CarriedBy(ctx, machine, vm.host.conn, to.conn, o), to, o)
	}

	copies := migration.Copies(ctx, machine, vm.host.conn, to.conn, o)
	if len(copies) == 0 {
		return nil
	}

	lines := make([]string, len(copies))
	for i, c := range copies {
		lines[i] = fmt.Sprintf("  - %s: %s, %s", c.Disk.Key, c.Disk.Path, bytesText(c.Capacity))
		if base := o.Base(c.Disk); base.Path != "" {
			lines[i] += ", what it has besides " + base.Path
		}
	}

	chains := ", without backing files"
	if o.CopyStorage == migration.CopyIncremental {
		chains = " on the same backing files"
	}

	after := "they are kept"
	if !*o.WithDefaults().KeepSourceDisks {
		after = "they are removed as soon as the machine runs there"
	}

	return []Problem{{
		Attribute: "host", Summary: "Disks of the virtual machine are copied: " + migration.MethodBlock, Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q takes these disks along from host %q to host %q, each into a new image of "+
			"the same path%s:\n%s\nOn host %q %s", vm.Name, vm.Host, to.name, chains,
			strings.Join(lines, "\n"), vm.Host, after),
	}}
}

// carriedProblems says which files a machine that is off takes along.
func carriedProblems(vm *VM, carried []migration.Carried, to *host, o migration.Options) []Problem {
	if len(carried) == 0 {
		return nil
	}

	var disks bool

	lines := make([]string, len(carried))
	for i, c := range carried {
		lines[i] = fmt.Sprintf("  - %s: %s", c.What, c.Path)
		if c.Disk {
			lines[i] += ", " + bytesText(c.Bytes)
			disks = true
		}
	}

	after := "On host " + strconv.Quote(vm.Host) + " those of its firmware and its TPM are removed with the definition"

	switch {
	case disks && *o.WithDefaults().KeepSourceDisks:
		after += "; disks are kept"
	case disks:
		after += "; disks are removed as soon as the machine is there"
	}

	return []Problem{{
		Attribute: "host", Summary: "Files of the virtual machine are copied: " + migration.MethodCold, Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q is off and takes these files along from host %q to host %q, each to the "+
			"same path, as far as they are there:\n%s\n%s", vm.Name, vm.Host, to.name, strings.Join(lines, "\n"), after),
	}}
}

// preflight finds everything that is in the way, room on the target included.
// askQEMU also asks QEMU itself, which taints the machine.
func (f *Fleet) preflight(
	ctx context.Context, vm *VM, to *host, o migration.Options, askQEMU bool,
) (migration.Machine, []migration.Blocker, error) {
	machine, err := vm.inspect(ctx)
	if err != nil {
		return machine, nil, err
	}

	if askQEMU {
		machine = machine.AskQEMU(ctx, vm.host.conn)
	}

	blockers, err := f.preflightTo(ctx, vm, machine, to, o)

	return machine, blockers, err
}

// preflightTo is preflight of a machine that was looked at already.
func (f *Fleet) preflightTo(
	ctx context.Context, vm *VM, machine migration.Machine, to *host, o migration.Options,
) ([]migration.Blocker, error) {
	a, err := f.answerOf(ctx, to)
	if err == nil {
		machine.Unfinished = vm.copiesOn(a.info.UUID)
	}

	blockers, checkErr := migration.Preflight(ctx, machine, vm.host.conn, to.conn, o)
	if checkErr != nil {
		return nil, checkErr
	}

	if machine.Live() {
		blockers = append(blockers, o.TransportBlockers(vm.host.cfg.Tunnel != nil, to.cfg.Tunnel != nil)...)
		blockers = append(blockers, o.PeerBlockers(to.name, to.cfg.PeerURI)...)
	}

	if errors.Is(err, ErrUnreachable) {
		return blockers, nil // Preflight has said so.
	}

	if err != nil {
		return nil, err
	}

	mark, err := a.cordonBlocker(ctx)
	if err != nil {
		return nil, err
	}

	if mark != nil {
		blockers = append([]migration.Blocker{*mark}, blockers...)
	}

	bytes := machine.Facts.Memory
	if !machine.Live() {
		bytes = 0 // It needs it when it is started.
	}

	f.reservations.mu.Lock()
	defer f.reservations.mu.Unlock()

	return append(blockers, f.roomBlockers(a, vm.Name, reservationFor(vm.Metadata, bytes))...), nil
}

// copiesOn are the files that unfinished moves of the machine left on a host.
func (vm *VM) copiesOn(hostUUID string) []string {
	var paths []string

	for _, c := range vm.Metadata.Copies {
		if c.HostUUID == hostUUID && c.FromUUID == vm.HostUUID {
			paths = append(paths, c.Path)
		}
	}

	return paths
}

// answerOf is what the snapshot says of one host.
func (f *Fleet) answerOf(ctx context.Context, h *host) (answer, error) {
	v, err := f.viewOf(ctx, h)
	if err != nil {
		return answer{}, err
	}

	return answer{host: h, view: v, info: v.info, err: v.err}, v.err
}

// moveProblem says why a move is out of the question.
func moveProblem(err error) Problem {
	p := Problem{Attribute: "host", Summary: "Virtual machine can't be moved", Detail: err.Error()}
	if e, ok := errors.AsType[*Error](err); ok {
		p.Detail, p.Remedy = e.Detail, e.Remedy
	}

	return p
}

// blockerProblems makes one problem of each blocker, and one warning of all
// that nobody can tell.
func blockerProblems(vm *VM, to *host, blockers []migration.Blocker) []Problem {
	var (
		problems []Problem
		doubts   []migration.Blocker
	)

	for _, b := range blockers {
		if b.Status != status.False {
			doubts = append(doubts, b)

			continue
		}

		problems = append(problems, Problem{
			Attribute: b.Attribute, Summary: "Virtual machine can't be moved: " + b.Reason,
			Detail: fmt.Sprintf("Virtual machine %q can't be moved from host %q to host %q (%s): %s.", vm.Name, vm.Host,
				to.name, b.Reason, b.Message),
			Remedy: b.Remedy,
		})
	}

	if len(doubts) > 0 {
		problems = append(problems, Problem{
			Attribute: "host", Summary: "Whether the virtual machine can be moved is not certain", Warning: true,
			Detail: fmt.Sprintf("Virtual machine %q is to be moved from host %q to host %q", vm.Name, vm.Host, to.name) +
				doubtText(doubts),
		})
	}

	return problems
}

// doubtText lists what nobody can tell beforehand, behind a sentence about the
// move.
func doubtText(blockers []migration.Blocker) string {
	if len(blockers) == 0 {
		return ""
	}

	lines := make([]string, len(blockers))
	for i, b := range blockers {
		lines[i] = "  - " + b.String()
	}

	return ". These can't be told beforehand; if one is in the way, the machine stays where it is:\n" +
		strings.Join(lines, "\n")
}
