package inventory

import (
	"cmp"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// notAsked is the reason why a fact is unknown that a bulk reading doesn't provide: it requires a query to the guest or
// to QEMU.
const notAsked = "not queried; virtfleet_conditions queries it"

// StateFacts returns the facts that don't require parsing the definitions.
func (vm *VM) StateFacts() status.Facts {
	f := status.Facts{
		Host: vm.Host, SilentHosts: vm.SilentHosts, StaleHosts: vm.StaleHosts,
		State: vm.State.String(), Active: vm.Active, Persistent: vm.Persistent,
		Migrating: vm.Migrating, MigrationSource: vm.ActiveHosts[vm.Host] == status.RoleSource,
		ActiveHosts: vm.ActiveHosts, HostStates: vm.HostStates, AgentConnected: vm.AgentConnected, PinnedTo: vm.Metadata.Host,
		AskedFirst: vm.acpi && GracePeriod(vm.Metadata) > 0,
	}
	f.Reason = cmp.Or(vm.pauseReason(), vm.Reason)
	f.RestartReason = vm.restartReason()

	if vm.BrokeInPostCopy() {
		f.PostCopyPeer, f.PostCopyFromPeer = vm.postCopyPeer()
		f.PostCopySent = vm.sent
		f.Migrating = f.Migrating && f.PostCopy() == status.PostCopyInterrupted
	}

	if move := vm.lastRecord(); move != nil {
		f.LostInPostCopy = move.Failed && move.Mode == string(migration.PostCopy)
		// The VM left the source: the definition there is stale since this migration.
		if move.Completed() && !move.Failed && move.TargetHost == vm.Host &&
			slices.Equal(vm.StaleHosts, []string{move.SourceHost}) {
			f.StaleSince = move.End
		}
	}

	if e := vm.Metadata.Eviction; e != nil {
		f.EvictedFrom, f.EvictedBy, f.EvictedSince = cmp.Or(vm.Peers[e.HostUUID], e.Host), e.Owner, e.Since
	}

	return f
}

// Facts returns what one reading of the host's definitions says about the VM. Facts that require a query to QEMU, to
// the guest or to another host are unknown; Observe queries them.
func (vm *VM) Facts() status.Facts {
	f := vm.StateFacts()
	f.AgentLacks = status.Unseen[[]string](notAsked)
	f.Blockers = status.Unseen[[]status.Blocker](notAsked)
	f.StorageBlockers = f.Blockers
	f.Disks = status.Unseen[[]status.Disk](notAsked)
	f.CutOff = status.Unseen[[]status.CutOff](notAsked)
	f.Resumer = status.Unseen[string](notAsked)

	if c := vm.Metadata.Creating; c != nil {
		f.Creating, f.Creator = new(c.Since), c.Owner
	}

	if vm.LiveSpec == nil {
		return f
	}

	f.AgentChannel = vm.LiveSpec.GuestAgent != nil && *vm.LiveSpec.GuestAgent

	f.Pending = vm.pending()

	if vm.PersistentSpec != nil {
		compare(&f, *vm.LiveSpec, *vm.PersistentSpec)
	}

	return f
}

// pending returns what the next start would change in the running VM.
func (vm *VM) pending() []status.Pending {
	if vm.LiveSpec == nil || vm.PersistentSpec == nil {
		return nil
	}

	var pending []status.Pending

	for _, change := range domain.Pending(*vm.LiveSpec, *vm.PersistentSpec) {
		pending = append(pending, status.Pending{Path: change.Path, Why: change.Why})
	}

	if vm.Metadata.FreshNVRAM {
		pending = append(pending, status.Pending{
			Path: "firmware", Why: "the next start begins with new firmware variables",
		})
	}

	return pending
}

// compare records how much CPU and memory of the running VM differs from what the next start gives it.
func compare(f *status.Facts, live, persistent domain.Spec) {
	perSocket := number(live.CPU.Cores) * number(live.CPU.Threads)
	f.VCPUs = status.Amount{
		Now: number(live.CPU.VCPUs), Wanted: number(persistent.CPU.VCPUs), Max: number(live.CPU.MaxSockets) * perSocket,
	}
	f.Memory = status.Amount{
		Now: amount(live.Memory.Size), Wanted: amount(persistent.Memory.Size),
		Max: max(amount(live.Memory.MaxSize), amount(live.Memory.Installed)),
	}
}

func number(n *int) uint64 {
	if n == nil || *n < 0 {
		return 0
	}

	return uint64(*n)
}

func amount(n *uint64) uint64 {
	if n == nil {
		return 0
	}

	return *n
}
