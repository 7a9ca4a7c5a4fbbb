package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
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

// Desired is what a configuration wants of one VM.
type Desired struct {
	// Spec is what its definition should say. What it leaves out stays as it is.
	Spec domain.Spec
	// Metadata is what only we know, and is kept with the definition: labels, run strategy, pinned host, grace period,
	// protection. It is complete: what is empty here is removed there.
	Metadata domain.Metadata
	// Volumes are the disks, by key, whose source is an existing volume of one of the host's storage pools, by path or as
	// "<pool>/<name>".
	Volumes map[string]string
	// OwnDisks are the disks, by key, that are made with the VM. Their sources in Spec stand for them until they are.
	OwnDisks map[string]domain.OwnDisk
	// Handed are the disks, by key, that the VM has already and that are described in another form from now on, as a
	// volume or as a disk of its own, and the files that they are. They stay as they are.
	Handed map[string]string
	// CloudInit is what the first-boot medium has, which is the own disk of key domain.MediumKey; nil: there is none.
	CloudInit *firstboot.NoCloud
	// Ignition is what the file of key domain.IgnitionKey has, which is made as own disks are; nil: there is none. It may
	// hold secrets.
	Ignition *firstboot.Ignition
	// GraphicsPassword is the password that the screen is given; "" takes it away, nil leaves it alone.
	GraphicsPassword *string
	// Planned says that nothing is applied yet: storage pools and images that are not there may come with the same apply,
	// before the VM.
	Planned bool
	// PlannedObjects are networks and the like that come with the same apply, before the VM, and the hosts that will have
	// them.
	PlannedObjects status.PlannedObjects
	// Files are paths that have to lead to something on the host, by the attribute that says so: "disks.root.file".
	Files map[string]string
	// Applied are the sources that the disks had when they were last applied, by key. A disk that a snapshot or a user has
	// switched to another image since isn't switched back: what the guest wrote is there.
	Applied map[string]domain.DiskSource
	// Placement restricts where a VM that is not pinned may go.
	Placement Placement
	// Replaces is the UUID of the VM whose place a new one takes: it will be gone by then, so its name and memory are
	// free. Empty: of none.
	Replaces string
	// Incomplete says that some of it isn't known yet, so that what seems to be missing may come.
	Incomplete bool
	// Transient leaves a VM without a definition that was taken over like that. Any other one that has become transient is
	// defined again.
	Transient bool
	// Migration are the options for this VM with which a migration of it is resumed that broke in post-copy.
	Migration migration.Options
	// UpdatePolicy is one of UpdatePolicies. Empty is PolicyLive.
	UpdatePolicy string
}

// Placement restricts the hosts for a VM.
type Placement struct {
	// HostLabels must all be on the host.
	HostLabels map[string]string
	// AntiAffinity keeps the VM away from others. Nil: from none.
	AntiAffinity *AntiAffinity
	// DedicatedCPUs keeps other VMs off the CPUs that the VM is pinned to.
	DedicatedCPUs bool
}

// AntiAffinity keeps a VM off the hosts that have a VM with all of these labels; if not Required, only as long as
// another host fits.
type AntiAffinity struct {
	Labels   map[string]string
	Required bool
}

// Stamp is the metadata of a new VM.
func (d Desired) Stamp() domain.Metadata { return d.StampOn(domain.Metadata{}) }

// StampOn is the metadata that the wish leaves on a VM which has some already: what whoever moves it later has to know
// of its placement comes along, and whatever else is recorded there stays.
func (d Desired) StampOn(m domain.Metadata) domain.Metadata {
	want := d.Metadata
	m.Labels, m.SharedDisks = want.Labels, want.SharedDisks
	m.KeepNVRAM, m.KeepTPMState = want.KeepNVRAM, want.KeepTPMState
	m.ExtraDevices, m.DeviceClasses = want.ExtraDevices, d.Spec.DeviceClasses()
	m.RunStrategy, m.Host, m.EvictionStrategy = want.RunStrategy, want.Host, want.EvictionStrategy
	m.TerminationGracePeriod, m.DeletionProtection = want.TerminationGracePeriod, want.DeletionProtection
	m.HostLabels, m.Avoids, m.DedicatedCPUs = d.Placement.HostLabels, nil, d.Placement.DedicatedCPUs

	if anti := d.Placement.AntiAffinity; anti != nil && anti.Required {
		m.Avoids = anti.Labels
	}

	return m
}

// Strategy is the run strategy, Always when none is declared for a new VM.
func (d Desired) Strategy() string {
	if d.Metadata.RunStrategy == "" {
		return status.Always
	}

	return d.Metadata.RunStrategy
}

// PowerAction is what the run strategy asks for, as the VM is now.
func (d Desired) PowerAction(vm *inventory.VM) status.Action {
	return status.PowerAction(d.Metadata.RunStrategy, vm.Status(), vm.Phase(), vm.StatusReason())
}

func (d Desired) memory() uint64 {
	if d.Spec.Memory.Size == nil {
		return 0
	}

	return d.Spec.UsableMemory()
}

// memoryOn is how much memory of the host a new VM takes, what QEMU needs included.
func (d Desired) memoryOn(h *inventory.Host) uint64 {
	if d.memory() == 0 || h.Config.OvercommitGuestOverhead {
		return d.memory()
	}

	return d.memory() + domain.NewOverhead(d.Spec)
}

// Declares says that the wish decides about the own disk of a key.
func (d Desired) Declares(key string) bool {
	switch ofKey(key) {
	case domain.MediumKey:
		return d.Spec.Medium != nil
	case domain.IgnitionKey:
		return d.Spec.Ignition != nil
	default:
		return d.Spec.Disks != nil
	}
}

// Hash identifies the wish, so that an interrupted Create is known again.
func (d Desired) Hash() string {
	hash := domain.SpecHash(d.Spec.Unassigned())
	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		o := d.OwnDisks[key]
		hash += fmt.Sprintf("\n%q %q %q %q %d %q", key, o.Pool, o.Image, o.Clone, o.Bytes, o.OnDestroy)
		if o.Content != "" {
			hash += " " + o.Content
		}
	}

	if len(d.OwnDisks) == 0 {
		return hash
	}

	sum := sha256.Sum256([]byte(hash))

	return hex.EncodeToString(sum[:])
}
