package fleet

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Update policies: what to do when a change needs a restart.
const (
	// PolicyLive refuses the change.
	PolicyLive = "Live"
	// PolicyRestart shuts the guest down and starts it again.
	PolicyRestart = "Restart"
	// PolicyStage leaves the change to the next start.
	PolicyStage = "Stage"
)

// UpdatePolicies lists every update policy, in the order of the documentation.
var UpdatePolicies = []string{PolicyLive, PolicyRestart, PolicyStage}

// Desired is what a configuration wants of one machine.
type Desired struct {
	// Spec is what its definition should say. What it leaves out stays as it is.
	Spec domain.Spec
	// Metadata is what only we know, and is kept with the definition: labels,
	// run strategy, pinned host, grace period, protection. It is complete: what
	// is empty here is removed there.
	Metadata domain.Metadata
	// Volumes are the disks, by key, whose source is an existing volume of one
	// of the host's storage pools, by path.
	Volumes map[string]string
	// Files are paths that have to lead to something on the host, by the attribute
	// that says so: "disks.root.file".
	Files map[string]string
	// Placement restricts where a machine that is not pinned may go.
	Placement Placement
	// Replaces is the UUID of the machine whose place a new one takes: it will be
	// gone by then, so its name and memory are free. Empty: of none.
	Replaces string
	// Incomplete says that some of it isn't known yet, so that what seems to be
	// missing may come.
	Incomplete bool
	// Migration are the options for this machine with which a migration of it is
	// resumed that broke in post-copy.
	Migration migration.Options
	// UpdatePolicy is one of UpdatePolicies. Empty is PolicyLive.
	UpdatePolicy string
}

// Placement restricts the hosts for a machine.
type Placement struct {
	// HostLabels must all be on the host.
	HostLabels map[string]string
	// AntiAffinity keeps the machine away from others. Nil: it minds nobody.
	AntiAffinity *AntiAffinity
}

// AntiAffinity keeps a machine off the hosts that have a machine with all of
// these labels; if not Required, only as long as another host fits.
type AntiAffinity struct {
	Labels   map[string]string
	Required bool
}

// stamp is the metadata that the wish leaves on the machine: what whoever moves
// it later has to know of its placement comes along.
func (d Desired) stamp() domain.Metadata {
	m := d.Metadata
	m.HostLabels = d.Placement.HostLabels

	if anti := d.Placement.AntiAffinity; anti != nil && anti.Required {
		m.Avoids = anti.Labels
	}

	return m
}

// strategy is the run strategy, Always when none is declared for a new machine.
func (d Desired) strategy() string {
	if d.Metadata.RunStrategy == "" {
		return status.Always
	}

	return d.Metadata.RunStrategy
}

// powerAction is what the run strategy asks for, as the machine is now.
func (d Desired) powerAction(vm *VM) status.Action {
	return status.Power(d.Metadata.RunStrategy, vm.Status(), vm.Phase(), vm.StatusReason())
}

func (d Desired) memory() uint64 {
	if d.Spec.Memory.Size == nil {
		return 0
	}

	return *d.Spec.Memory.Size
}
