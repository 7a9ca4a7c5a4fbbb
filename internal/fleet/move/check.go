package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Inspect reads what decides whether and how the VM can move. It describes a VM as running whose guest an interrupted
// move or start has left paused: before such a VM moves, its guest continues.
func Inspect(ctx context.Context, vm *inventory.VM) (migration.VM, error) {
	m, err := migration.Inspect(ctx, vm.On.Conn, vm.UUID, vm.Active)
	if vm.Stranded || vm.StartInterrupted {
		m.State, m.Reason = libvirt.Running, ""
	}

	markSharedOwnDisks(ctx, vm, &m.Mobility)

	return m, err
}

// TurnedOff returns a running VM as it will be when it is off, nil if it is transient, and would be gone.
func TurnedOff(ctx context.Context, vm *inventory.VM, running migration.VM) *migration.VM {
	persistent := vm.Entry.Parse().Persistent
	if persistent == nil {
		return nil
	}

	off := running.TurnedOff(persistent.Mobility())
	markSharedOwnDisks(ctx, vm, &off.Mobility)

	return &off
}

// ExpectMove opens connections, in the background, over which the host of a running VM is asked whether the VM can
// move.
func (ck *Checks) ExpectMove(last inventory.LastKnown) {
	if h := ck.hosts.Host(last.Host); h != nil && !h.Config.Fenced {
		h.Conn.ExpectSlowCalls(2) // For its jobs and those of its disks.
	}
}

// CheckMove returns what would prevent the move to the target that the VM's configuration pins it to: every blocker
// with its reason code and remedy. It changes nothing on a host. A check that can have no result yet is a warning. So
// is a target that is cordoned, or switched off for its maintenance: the same apply may end the maintenance, and Move
// refuses the target if it hasn't. planned are the objects that hosts will have before the move.
func (ck *Checks) CheckMove(
	ctx context.Context, order Order, planned status.PlannedObjects,
) ([]inventory.Problem, error) {
	return ck.checkMove(ctx, order, planned, true)
}

// checkMove checks a move to the order's target. pinned says that the VM's configuration pins it to that target.
func (ck *Checks) checkMove(
	ctx context.Context, order Order, planned status.PlannedObjects, pinned bool,
) ([]inventory.Problem, error) {
	to, err := ck.hosts.UsableHost(order.Target)
	if err != nil {
		return []inventory.Problem{moveProblem(err)}, nil
	}

	vm, err := ck.hosts.Find(ctx, order.UUID, order.Last)
	if err != nil || vm.On == to {
		return nil, err
	}

	if first := endsFirst(vm, to); first != nil {
		return []inventory.Problem{*first}, nil
	}

	if err := cmp.Or(vm.RequireIdle(), vm.RequireOneCopy()); err != nil {
		return []inventory.Problem{moveProblem(err)}, nil
	}

	effective, err := ck.records.MigrationOptionsOf(ctx, vm, order.Options)
	if err != nil {
		return nil, err
	}

	inspected, blockers, err := ck.FindBlockers(ctx, vm, to, effective.Options)
	if err != nil {
		return nil, err
	}

	blockers = append(planned.Without(to.Name, blockers), plannedPoolBlockers(vm, to, planned)...)

	var problems []inventory.Problem

	closed := func(b migration.Blocker) bool {
		return b.Reason == migration.HostCordoned ||
			b.Reason == migration.HostNotAvailable && ck.records.SwitchedOff(ctx, to.Name)
	}

	stays := false
	if i := slices.IndexFunc(blockers, closed); pinned && i >= 0 {
		problems = append(problems, pinClosed(vm, to, blockers[i]))
		blockers = slices.Delete(blockers, i, i+1)
		stays = true
	}

	problems = append(problems, blockerProblems(vm, to, blockers)...)
	if len(migration.Blocking(blockers)) == 0 {
		problems = append(problems, placement.WarnSaved(vm, fmt.Sprintf("The VM moves to host %q without it", to.Name))...)
		problems = append(problems, copyProblems(ctx, vm, ck.WithTarget(ctx, vm, inspected, to), to, effective.Options)...)

		if a, err := ck.hosts.ReplyOf(ctx, to); err == nil && vm.Active && !stays {
			problems = append(problems, ck.placement.PlanArrival(ctx, a, vm)...)
		}
	}

	return problems, nil
}

// pinClosed warns that a VM is pinned to a host that accepts no VMs now.
func pinClosed(vm *inventory.VM, to *inventory.Host, b migration.Blocker) inventory.Problem {
	return inventory.Problem{
		Attribute: "host", Summary: "Virtual machine is pinned to a host under maintenance", Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q is on host %q, its attribute host is %q, and %s. Until that "+
			"ends, the VM stays where it is, and a change of it fails before it moves the VM", vm.Name, vm.Host, to.Name,
			b.Message),
		Remedy: "Destroy the virtfleet_host_maintenance, together with this change or before: then the VM is moved. " +
			"Otherwise change the VM's host, or remove that attribute.",
	}
}

// copyProblemsTo inspects the VM, and returns what will be copied.
func (ck *Checks) copyProblemsTo(
	ctx context.Context, vm *inventory.VM, target string, o migration.Options,
) []inventory.Problem {
	inspected, err := Inspect(ctx, vm)
	if err != nil {
		return nil // The move itself reports the error.
	}

	to := ck.hosts.Host(target)

	return copyProblems(ctx, vm, ck.WithTarget(ctx, vm, inspected, to), to, o)
}

// copyProblems returns what will be copied: disks of a running VM, or files of a stopped VM.
func copyProblems(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host, o migration.Options,
) []inventory.Problem {
	problems := append(imageCopyProblems(vm, inspected, to), secretProblems(ctx, vm, inspected, to)...)
	if !inspected.Live() {
		return append(problems, carriedProblems(vm, migration.CopiedFiles(ctx, inspected, vm.On.Conn, to.Conn, o), to, o)...)
	}

	return append(problems, imageProblems(ctx, vm, inspected, to, o)...)
}

// imageProblems returns which disks of a running VM will be copied.
func imageProblems(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host, o migration.Options,
) []inventory.Problem {
	copies := migration.Copies(ctx, inspected, vm.On.Conn, to.Conn, o)
	if len(copies) == 0 {
		return nil
	}

	var own, others int

	lines := make([]string, len(copies))
	for i, c := range copies {
		lines[i] = fmt.Sprintf("  - %s: %s, %s", c.Disk.Key, c.Disk.Path, domain.FormatSize(c.Capacity))
		if base := o.Base(c.Disk); base.Path != "" {
			lines[i] += ", its own data on top of " + base.Path
		}

		if c.Disk.Own != nil {
			own++
		} else {
			others++
		}
	}

	chains := ", without backing files"
	if o.CopyStorage == migration.CopyIncremental || others == 0 {
		chains = " on the same backing files"
	}

	return []inventory.Problem{{
		Attribute: "host", Summary: "Disks of the virtual machine are copied: " + migration.MethodBlock, Warning: true,
		Detail: fmt.Sprintf("These disks of virtual machine %q are copied from host %q to host %q, each into a new image "+
			"at the same path%s:\n%s\n%s", vm.Name, vm.Host, to.Name, chains, strings.Join(lines, "\n"),
			afterCopies(vm, own, others, !*o.WithDefaults().KeepSourceDisks)),
	}}
}

// afterCopies returns a text about what happens to disks at the source: to those that were made with the VM, and to
// others.
func afterCopies(vm *inventory.VM, own, others int, removed bool) string {
	text := fmt.Sprintf("On host %q they are ", vm.Host)

	switch {
	case others == 0, removed:
		return text + "removed as soon as the VM runs there"
	case own == 0:
		return text + "kept"
	default:
		return text + "kept, except for those that were made with it, which are removed as soon as the VM runs there"
	}
}

// carriedProblems returns which files of a stopped VM will be copied.
func carriedProblems(
	vm *inventory.VM, carried []migration.CopiedFile, to *inventory.Host, o migration.Options,
) []inventory.Problem {
	if len(carried) == 0 {
		return nil
	}

	var disks, own bool

	lines := make([]string, len(carried))
	for i, c := range carried {
		lines[i] = fmt.Sprintf("  - %s: %s", c.What, c.Path)
		if c.Disk {
			lines[i] += ", " + domain.FormatSize(c.Bytes)
			disks, own = disks || !c.Own, own || c.Own
		}
	}

	after := "On host " + strconv.Quote(vm.Host) + " those of its firmware and its TPM are removed with the definition"

	switch {
	case disks && own && *o.WithDefaults().KeepSourceDisks:
		after += "; disks are kept, except for those that were made with it, which are removed as soon as it is there"
	case disks && *o.WithDefaults().KeepSourceDisks:
		after += "; disks are kept"
	case disks, own:
		after += "; disks are removed as soon as the VM is there"
	}

	return []inventory.Problem{{
		Attribute: "host", Summary: "Files of the virtual machine are copied: " + migration.MethodCold, Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q is off. These of its files are copied from host %q to host %q, each to the "+
			"same path, if they exist:\n%s\n%s", vm.Name, vm.Host, to.Name, strings.Join(lines, "\n"), after),
	}}
}

// moveProblem returns why a move is impossible.
func moveProblem(err error) inventory.Problem {
	p := inventory.Problem{Attribute: "host", Summary: "Virtual machine can't be moved", Detail: err.Error()}
	if e, ok := errors.AsType[*inventory.Error](err); ok {
		p.Detail, p.Remedy, p.Next, p.Existing = e.Detail, e.Remedy, e.Next, e.Existing
	}

	return p
}

// blockerProblems makes one problem of each blocker, and one warning of all unknown checks.
func blockerProblems(vm *inventory.VM, to *inventory.Host, blockers []migration.Blocker) []inventory.Problem {
	var (
		problems []inventory.Problem
		doubts   []migration.Blocker
	)

	for _, b := range blockers {
		if b.Status != status.False {
			doubts = append(doubts, b)

			continue
		}

		problems = append(problems, inventory.Problem{
			Attribute: b.Attribute, Summary: "Virtual machine can't be moved: " + b.Reason,
			Detail: fmt.Sprintf("Virtual machine %q can't be moved from host %q to host %q (%s): %s.", vm.Name, vm.Host,
				to.Name, b.Reason, b.Message),
			Remedy: b.Remedy,
		})
	}

	if len(doubts) > 0 {
		problems = append(problems, inventory.Problem{
			Attribute: "host", Summary: "Unable to determine whether the virtual machine can be moved", Warning: true,
			Detail: fmt.Sprintf("Virtual machine %q is to be moved from host %q to host %q", vm.Name, vm.Host, to.Name) +
				doubtText(doubts),
		})
	}

	return problems
}

// doubtText lists the checks without a result, as the continuation of a sentence about the move.
func doubtText(blockers []migration.Blocker) string {
	if len(blockers) == 0 {
		return ""
	}

	lines := make([]string, len(blockers))
	for i, b := range blockers {
		lines[i] = "  - " + b.String()
	}

	return ". These checks have no result yet. If one of them blocks the move, the VM stays where it is:\n" +
		strings.Join(lines, "\n")
}
