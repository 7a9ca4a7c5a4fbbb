package evacuation

import (
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// Input is everything that a plan depends on.
type Input struct {
	// Host is the host to be drained.
	Host string
	// VMs are all VMs of the host.
	VMs []VM
	// Hosts are the other hosts that accept VMs.
	Hosts []Host
	// Policies are the fleet's policies, Default the provider's strategy.
	Policies []Policy
	Default  string
	// MigrationPolicies tune how VMs are moved.
	MigrationPolicies []migration.Policy
	// MoveStopped says whether stopped VMs are moved too.
	MoveStopped bool
}

// VM returns the host's VM with this UUID, if it has that.
func (in Input) VM(uuid string) (vm VM, here bool) {
	at := slices.IndexFunc(in.VMs, func(m VM) bool { return m.UUID == uuid })
	if at < 0 {
		return VM{}, false
	}
	return in.VMs[at], true
}

// VM is one VM of the host.
type VM struct {
	UUID, Name string
	// Active says whether the VM runs or is paused, Persistent whether it has a definition that remains when it stops.
	Active, Persistent bool
	// Autostart says whether the host starts the VM when it boots.
	Autostart bool
	// Memory is how much memory a host needs for the VM, in bytes.
	Memory uint64
	// Use is what the VM requests from its host. Of a running VM it is what the VM has now.
	Use domain.HostUse
	// StartedMemory and StartedUse are the same once the VM is started from its definition, as a running VM is that is
	// turned off to be moved.
	StartedMemory uint64
	StartedUse    domain.HostUse
	Labels        map[string]string
	// Strategy is the VM's own strategy, "" for none.
	Strategy string
	// Pin is the host that the VM's configuration pins it to, "" for none.
	Pin string
	// Avoids are labels of VMs that this VM must not share a host with. Nil means none.
	Avoids map[string]string
	// LiveBlockers is, for each other host, what blocks moving the VM as it is now: while it runs, or while it is off.
	// It omits room and avoidance, which this package checks. ColdBlockers is the same for when the VM will be off; nil
	// means the same as LiveBlockers.
	LiveBlockers, ColdBlockers map[string][]migration.Blocker
	// Unclear says that the VM could not be inspected. LiveBlockers then has one doubt for each host that may accept it.
	Unclear bool
	// LiveBytes and ColdBytes are how much such a move copies at least to each host. Hosts to which nothing is known to
	// be copied are missing.
	LiveBytes, ColdBytes map[string]uint64
	// LiveSpace and ColdSpace are how much room such a move requires at least in each host's directories for the disks.
	LiveSpace, ColdSpace map[string]Space
}

// On returns what policies see of the VM while it is on that host.
func (m VM) On(host string) policy.VM {
	return policy.VM{Name: m.Name, Host: host, Labels: m.Labels}
}

// Host is a host that may accept VMs.
type Host struct {
	Name string
	// Free is how many bytes may still be committed there.
	Free uint64
	// FreeSpace is how much may still be written to the host's directories, where known.
	FreeSpace Space
	// Pages are the free bytes in huge pages, by page size. DefaultPage is the size that a VM gets that names none.
	Pages       map[uint64]uint64
	DefaultPage uint64
	// Devices are how many host devices of each class are free.
	Devices map[string]uint64
	// Shares are how much is left of what the host divides among its VMs, where known.
	Shares map[Share]uint64
	// VMs are those on the host.
	VMs []Neighbour
}

// Space holds numbers of bytes by directory. The number at a directory followed by GrowthIn is what its volumes may
// grow to, and not the space that they occupy.
type Space map[string]uint64

// GrowthIn marks a directory in Space.
const GrowthIn = " (storage_overprovisioning_factor)"

// minus returns what remains after something is taken.
func minus[M ~map[K]uint64, K comparable](has, taken M) M {
	left := maps.Clone(has)
	for of, bytes := range taken {
		if has, known := left[of]; known {
			left[of] = has - min(has, bytes)
		}
	}
	return left
}

// Neighbour is a VM on another host.
type Neighbour struct {
	Name           string
	Labels, Avoids map[string]string
	// Use is what the VM uses of its host.
	Use domain.HostUse
}
