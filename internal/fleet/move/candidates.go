package move

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Candidate is a host that a VM might move to.
type Candidate struct {
	Host string
	// Current says whether the VM is on this host.
	Current bool
	// Blockers are everything that blocks, or may block, the move.
	Blockers []migration.Blocker
	// Method is the method by which the VM would move there, one of those of package migration. It is "" if the VM can't
	// move there.
	Method string
	// FreeMemory is how many bytes may still be committed there. It is nil if the host doesn't answer.
	FreeMemory *uint64
}

// Fits says whether the VM can move to the host, as far as known.
func (c Candidate) Fits() bool { return !c.Current && len(migration.Blocking(c.Blockers)) == 0 }

// MoveCandidates checks every host as a target for the VM. The host that would be chosen comes first, and hosts that
// the VM doesn't fit on come last. own are the options that are given for this move; effective are the options that it
// would use. askQEMU also asks QEMU itself, which taints the VM.
func (ck *Checks) MoveCandidates(
	ctx context.Context, uuid string, last inventory.LastKnown, own migration.Options, askQEMU bool,
) (*inventory.VM, []Candidate, migration.EffectiveOptions, error) {
	vm, err := ck.hosts.Find(ctx, uuid, last)
	if err != nil {
		return nil, nil, migration.EffectiveOptions{}, err
	}

	effective, err := ck.records.MigrationOptionsOf(ctx, vm, own)
	if err != nil {
		return vm, nil, effective, err
	}

	candidates, err := ck.moveCandidates(ctx, vm, effective.Options, askQEMU)

	return vm, candidates, effective, err
}

// moveCandidates checks every host with the options in force.
func (ck *Checks) moveCandidates(
	ctx context.Context, vm *inventory.VM, o migration.Options, askQEMU bool,
) ([]Candidate, error) {
	inspected, err := Inspect(ctx, vm)
	if err != nil {
		return nil, err
	}

	if askQEMU {
		inspected = inspected.AskQEMU(ctx, vm.On.Conn)
	}

	all := make([]Candidate, len(ck.hosts.Configured))
	errs := make([]error, len(ck.hosts.Configured))

	var wg sync.WaitGroup
	for i, h := range ck.hosts.Configured {
		wg.Go(func() { all[i], errs[i] = ck.moveCandidate(ctx, vm, inspected, h, o) })
	}

	wg.Wait()

	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}

	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(
			fittingFirst(a.Fits(), b.Fits()),
			fittingFirst(ck.takesMore(a), ck.takesMore(b)),
			cmp.Compare(len(a.Blockers), len(b.Blockers)), // the fewer doubts, the better
			-cmp.Compare(a.free(), b.free()),
		)
	})

	return all, nil
}

// takesMore says whether another VM could start to move to the host at once.
func (ck *Checks) takesMore(c Candidate) bool {
	return ck.queue.Inbound(c.Host) < ck.queue.Limits().InboundPerHost
}

func (c Candidate) free() uint64 {
	if c.FreeMemory == nil {
		return 0
	}

	return *c.FreeMemory
}

// moveCandidate checks one host.
func (ck *Checks) moveCandidate(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, h *inventory.Host, o migration.Options,
) (Candidate, error) {
	c := Candidate{Host: h.Name, Current: h == vm.On}

	if h.Config.Fenced {
		c.Blockers = []migration.Blocker{{
			Reason: migration.HostNotAvailable, Status: status.False, Attribute: "host",
			Message: fmt.Sprintf("host %q is fenced", h.Name), Remedy: "Choose another host.",
		}}

		return c, nil
	}

	if a, err := ck.hosts.ReplyOf(ctx, h); err == nil {
		c.FreeMemory = new(ck.placement.FreeMemory(a, ""))
	}

	if c.Current {
		return c, nil
	}

	blockers, err := ck.CheckCandidate(ctx, vm, inspected, h, o)
	if err != nil && ctx.Err() != nil {
		return c, err
	}

	if err != nil {
		// It excludes only this host.
		blockers = []migration.Blocker{migration.UnansweredBlocker(h.Name, inventory.WithoutHost(err))}
	}

	c.Blockers = slices.Concat(blockers, pinBlocker(vm, h, status.False))

	if c.Fits() {
		c.Method = migration.MethodTo(ctx, ck.WithTarget(ctx, vm, inspected, h), vm.On.Conn, h.Conn, o)
	}

	return c, nil
}

// CheckMigration returns what would prevent the order from being carried out, as far as known without touching a host.
// If the target is left open, a warning says which host would be chosen now.
func (ck *Checks) CheckMigration(ctx context.Context, order Order) ([]inventory.Problem, error) {
	vm, err := ck.hosts.Find(ctx, order.UUID, order.Last)
	if err != nil {
		return nil, err
	}

	before, again := startedBefore(vm, order)
	if !again {
		return before, nil
	}

	problems, err := ck.checkOrder(ctx, vm, order)

	return append(before, problems...), err
}

// startedBefore returns what is known of an order that was begun before, and whether it is to be carried out.
func startedBefore(vm *inventory.VM, order Order) (problems []inventory.Problem, again bool) {
	done := vm.Metadata.Migration(order.ID)
	if order.ID == "" || done == nil || done.Failed {
		return nil, true
	}

	taken := "taken over, and not run again"

	switch {
	case done.Completed():
	case vm.BrokeInPostCopy() && vm.StateFacts().PostCopy() == status.PostCopySent:
		taken = "waited for: " + vm.StateFacts().PostCopyReport()
	case vm.BrokeInPostCopy():
		taken = "resumed, because it broke in post-copy: " + vm.StateFacts().HostStatesText()
	case vm.Migrating:
		taken = "waited for, and not run again"
	case vm.Host != done.TargetHost: // Mover.MoveOnce closes the record as failed.
		again = true
		taken = fmt.Sprintf("waited for if that run still works on it. Otherwise it was interrupted, and is run again, "+
			"because the VM is on host %q", vm.Host)
	}

	return []inventory.Problem{{
		Attribute: "virtual_machine_id", Summary: "Migration was started before", Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q has a record of this migration, from host %q to host %q, started at %s "+
			"by %s. It is %s", vm.Name, done.SourceHost, done.TargetHost,
			done.Start.Format("2006-01-02 15:04:05 MST"), done.Owner, taken),
	}}, again
}

// checkOrder returns what would prevent an order that is yet to be carried out.
func (ck *Checks) checkOrder(ctx context.Context, vm *inventory.VM, order Order) ([]inventory.Problem, error) {
	if order.Target != "" {
		return ck.checkOrderTarget(ctx, vm, order)
	}

	effective, err := ck.records.MigrationOptionsOf(ctx, vm, order.Options)
	if err != nil {
		return nil, err
	}

	candidates, err := ck.moveCandidates(ctx, vm, effective.Options, false)
	if err != nil {
		return nil, err
	}

	if best := candidates[0]; best.Fits() {
		return append([]inventory.Problem{{
			Attribute: "target_host", Summary: "Target is chosen when the migration begins", Warning: true,
			Detail: fmt.Sprintf("Virtual machine %q is on host %q. If it were migrated now, it would go to host %q", vm.Name,
				vm.Host, best.Host) + doubtText(best.Blockers),
		}}, ck.copyProblemsTo(ctx, vm, best.Host, effective.Options)...), nil
	}

	return []inventory.Problem{{
		Attribute: "target_host", Summary: "No host can take the VM",
		Detail: fmt.Sprintf("Virtual machine %q on host %q can't be moved to any other host:\n%s", vm.Name, vm.Host,
			candidateText(candidates)),
	}}, nil
}

// checkOrderTarget returns the problems of a move to the host that the order names.
func (ck *Checks) checkOrderTarget(
	ctx context.Context, vm *inventory.VM, order Order,
) ([]inventory.Problem, error) {
	if vm.Host == order.Target {
		return []inventory.Problem{{
			Attribute: "target_host", Summary: "Virtual machine is on the target already", Warning: true,
			Detail: fmt.Sprintf("Virtual machine %q is on host %q. Unless that changes, nothing is moved", vm.Name, vm.Host),
		}}, nil
	}

	problems, err := ck.checkMove(ctx, order, nil, false)
	if err != nil {
		return nil, err
	}

	if to := ck.hosts.Host(order.Target); to != nil {
		for _, b := range pinBlocker(vm, to, status.Unknown) {
			problems = append(problems, inventory.Problem{
				Attribute: "target_host", Summary: "Virtual machine is pinned to another host: " + b.Reason, Warning: true,
				Detail: fmt.Sprintf("Virtual machine %q can't be moved to host %q while %s", vm.Name, to.Name, b.Message),
				Remedy: b.Remedy,
			})
		}

		for _, b := range placement.LabelBlocker(vm, to, status.Unknown) {
			problems = append(problems, inventory.Problem{
				Attribute: "target_host", Summary: "Target doesn't match the placement: " + b.Reason, Warning: true,
				Detail: fmt.Sprintf("Virtual machine %q is moved to host %q because the order names it, although %s", vm.Name,
					to.Name, b.Message),
				Remedy: b.Remedy,
			})
		}
	}

	return problems, nil
}

// fittingFirst sorts true before false.
func fittingFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
