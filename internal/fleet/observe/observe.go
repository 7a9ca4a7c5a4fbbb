package observe

import (
	"context"
	"errors"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	guestagent "github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// observeTimeout bounds all questions of one observation together, once the VM was found. A guest agent that hangs uses
// half of it.
const observeTimeout = 15 * time.Second

// Question says what is to be observed.
type Question struct {
	// UUID or Name selects the VM. The other is "".
	UUID, Name string
	// RawCommands also asks the guest agent and QEMU questions that taint the domain.
	RawCommands bool
	// Target is the host that the VM might be moved to. "" means any other host.
	Target string
}

// The names of parts that an observation may lack, in Observation.Unavailable.
const (
	PartAgent     = "guest_agent"
	PartLease     = "lease"
	PartARP       = "arp"
	PartJob       = "job"
	PartBlockers  = "blockers"
	PartDisks     = "disks"
	PartDiskError = "disk_errors"
	PartPolicies  = "eviction_policies"
	PartQEMULog   = "qemu_log"
	PartPorts     = "network_ports"
)

// Parts are the names of all parts.
var Parts = []string{
	PartAgent, PartLease, PartARP, PartJob, PartBlockers, PartDisks, PartDiskError, PartPolicies, PartQEMULog,
	PartPorts,
}

// Observation is everything that all layers report about one VM now.
type Observation struct {
	// VM is nil when the VM was not found because hosts that may have it don't answer. Only Facts is set then.
	VM    *inventory.VM
	Facts status.Facts
	// Migration is the migration in progress, otherwise the last recorded one, nil for none.
	Migration *domain.Migration
	// Guest is the guest agent's report.
	Guest      *guestagent.Report
	Interfaces []status.Interface
	// DiskErrors are the errors that paused the guest, by disk. Nil means unknown.
	DiskErrors map[string]libvirt.DiskError
	// Rule is the rule that applies to the VM if its host is drained. Nil means unknown.
	Rule *evacuation.Rule
	// QEMULog is the end of QEMU's log on the VM's host. It is nil when it can't be read.
	QEMULog []string
	// BootMemory is the memory with which the VM started, or will start, in bytes.
	BootMemory uint64
	// Unavailable has the reason for each part that is unknown.
	Unavailable map[string]string
}

// Observe finds the VM now, not in the snapshot, and asks every layer about it in parallel. A layer that doesn't answer
// leaves its part unknown. If the VM was not found while hosts don't answer, Observe returns no error, but an
// Observation in which all is unknown.
func (ob *Observer) Observe(ctx context.Context, q Question) (*Observation, error) {
	if q.Target != "" {
		if _, err := ob.hosts.UsableHost(q.Target); errors.Is(err, inventory.ErrUnconfigured) {
			return nil, err
		}
	}

	vm, silent, err := ob.lookFor(ctx, q)
	if errors.Is(err, inventory.ErrUnreachable) && len(silent) > 0 {
		return &Observation{Facts: status.Facts{SilentHosts: silent}}, nil
	}

	if err != nil {
		return nil, err
	}

	asking, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()

	o := &observing{observer: ob, vm: vm, question: q}
	o.ask(asking)

	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	return o.result(), nil
}

// lookFor asks every host for the VM now, and also returns the hosts that did not answer.
func (ob *Observer) lookFor(ctx context.Context, q Question) (*inventory.VM, []string, error) {
	uuid := q.UUID

	if uuid == "" {
		answers, err := ob.hosts.AskAll(ctx, inventory.ByName(q.Name))
		if err != nil {
			return nil, nil, err
		}

		if uuid, err = inventory.Named(answers, q.Name); err != nil {
			return nil, inventory.SilentHosts(answers), err
		}
	}

	vm, answers, err := ob.hosts.FindAmong(ctx, uuid, inventory.LastKnown{})

	return vm, inventory.SilentHosts(answers), err
}
