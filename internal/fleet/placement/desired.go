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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Update policies: what the provider does if a change requires a restart.
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

// Desired is the configuration of one VM.
type Desired struct {
	// Spec is what the definition should say. What it leaves out stays unchanged.
	Spec domain.Spec
	// Metadata is kept with the definition, because libvirt has no place for it: labels, run strategy, pinned host, grace
	// period, protection. It is complete: what is empty here is removed from the definition.
	Metadata domain.Metadata
	// Volumes are the disks, by key, whose source is an existing volume of one of the host's storage pools, by path or as
	// "<pool>/<name>".
	Volumes map[string]string
	// OwnDisks are the disks, by key, that are created with the VM. Until then, their sources in Spec stand for them.
	OwnDisks map[string]domain.OwnDisk
	// AnyPool are the keys of first-boot volumes for which no storage pool is declared. OwnDisks has the one for a new
	// volume; an existing volume stays where it is.
	AnyPool []string
	// Known are the paths of the devices that the VM had when the change was planned. One that it has got since isn't
	// removed: no plan has announced that. Nil: they aren't known, and nothing is checked.
	Known []string
	// StaysRunning are the paths of devices that only the running VM has, and that it keeps until it is off.
	StaysRunning []string
	// Removes are the keys of the own disks that the plan has announced to be deleted. No other disk is deleted because it
	// isn't declared.
	Removes []string
	// Renamed are the own disks that are existing ones under a new key, as the plan has announced it: the VM's key by
	// declared key. No other disk is taken for one of another key.
	Renamed map[string]string
	// Lost are disks that earlier runs created for the VM and that its definition doesn't know any more, as after
	// "virsh snapshot-revert", by key. A declared one is attached again if its volume is still there.
	Lost map[string]domain.OwnDisk
	// Handed are the files of disks, by key, that the VM has already and whose form changes to a volume or to an own disk.
	// The files stay as they are.
	Handed map[string]string
	// CloudInit is the content of the first-boot medium, which is the own disk with the key domain.MediumKey; nil for
	// none.
	CloudInit *firstboot.NoCloud
	// Ignition is the content of the file with the key domain.IgnitionKey, which is created like own disks; nil for none.
	// It may contain secrets.
	Ignition *firstboot.Ignition
	// GraphicsPassword is the password of the graphics; "" removes it, nil keeps it.
	GraphicsPassword *string
	// Planned says that nothing is applied yet: the same apply may create missing storage pools and images before the VM.
	Planned bool
	// PlannedObjects are networks and other objects that the same apply creates before the VM, and the hosts that will
	// have them.
	PlannedObjects status.PlannedObjects
	// UnplannedPools are storage pools of OwnDisks and of their images that no resource of the same apply creates, as far
	// as the plan knows. A host must have them already.
	UnplannedPools map[string]bool
	// UnplannedImages are images of OwnDisks that no resource of the same apply brings to hosts, as far as the plan knows.
	UnplannedImages map[string]bool
	// UnplannedVolumes are volumes of Volumes, as "<pool>/<name>", that no resource of the same apply creates, as far as
	// the plan knows.
	UnplannedVolumes map[string]bool
	// Files are paths that must exist on the host, by the attribute that names them: "disks.root.file".
	Files map[string]string
	// Applied are the sources that the disks had when this configuration was last applied, by key. If a snapshot or a user
	// has switched a disk to another image since, it isn't switched back: that image has what the guest wrote. The VM's
	// metadata has the same of any configuration.
	Applied map[string]domain.DiskSource
	// Placement restricts the hosts of a VM that is not pinned.
	Placement Placement
	// Replaces is the UUID of the VM that a new one replaces, or empty. That VM will be gone by then, so its name,
	// memory and disks are free.
	Replaces string
	// Completes says that Replaces isn't replaced: an interrupted creation of the same configuration left it, and the
	// apply completes it, with the disks that it has.
	Completes bool
	// Incomplete says that some values aren't known yet, so that what seems to be missing may be declared later.
	Incomplete bool
	// Transient leaves a VM without a persistent definition if it was imported without one. Any other VM that has become
	// transient is defined again.
	Transient bool
	// Migration are the options with which a migration of the VM that failed in post-copy is resumed.
	Migration migration.Options
	// UpdatePolicy is one of UpdatePolicies. Empty is PolicyLive.
	UpdatePolicy string
	// LeavesHeld says that the guest keeps devices that it hasn't released when it was asked to, until it restarts. It
	// follows from the declared policy: UpdatePolicy is another one if something waits for a restart. See AsksAgain.
	LeavesHeld bool
	// floors are what the change asks networks to guarantee; nil: what a new VM asks for.
	floors map[string]domain.NetworkFloor
	// Power is what the plan shows of the VM's power. Nil: the plan couldn't know it, and the run strategy and the update
	// policy alone decide.
	Power *PlannedPower
	// Have is the configuration of the VM to be changed, whose files keep their formats. Changed sets it.
	Have domain.Spec
	// Made are the times of the last change of the volumes that the same apply has created, by path: hosts may have one
	// each there.
	Made map[string][]string
}

// FreshFormat returns the format of a volume that the same apply has created and that no guest has written to since; ""
// for other volumes.
func (d Desired) FreshFormat(v *libvirt.Volume) string {
	if !d.isFresh(v.Path, v.Changed) {
		return ""
	}

	return v.Format
}

// isFresh reports whether the same apply has created the volume at the path, and no guest has written to it since.
func (d Desired) isFresh(at, changed string) bool {
	return changed != "" && slices.Contains(d.Made[at], changed)
}

// PlannedPower is what a plan shows of a VM's power.
type PlannedPower struct {
	// Status is the VM's printed status when it was planned.
	Status string
	// Action is the action that the run strategy required then.
	Action status.Action
	// Restarts says that the guest is restarted for its changes.
	Restarts bool
}

// Placement restricts the hosts for a VM.
type Placement struct {
	// HostLabels are labels that the host must have.
	HostLabels map[string]string
	// AntiAffinity keeps the VM away from other VMs. Nil keeps it away from none.
	AntiAffinity *AntiAffinity
	// DedicatedCPUs keeps other VMs off the CPUs that the VM is pinned to.
	DedicatedCPUs bool
}

// AntiAffinity keeps a VM off the hosts that have a VM with all of these labels; if not Required, only while another
// host fits.
type AntiAffinity struct {
	Labels   map[string]string
	Required bool
}

// Stamp returns the metadata of a new VM.
func (d Desired) Stamp() domain.Metadata { return d.StampOn(domain.Metadata{}) }

// StampOn returns the metadata of an existing VM after the configuration is applied. It includes the placement, which a
// later move of the VM has to know, and keeps whatever else is recorded.
func (d Desired) StampOn(m domain.Metadata) domain.Metadata {
	want := d.Metadata
	m.Labels, m.SharedDisks = want.Labels, want.SharedDisks
	m.Kept = want.Kept
	m.ExtraDevices, m.DeviceClasses = want.ExtraDevices, d.Spec.DeviceClasses()
	m.RunStrategy, m.Host, m.EvictionStrategy = want.RunStrategy, want.Host, want.EvictionStrategy
	m.TerminationGracePeriod, m.DeletionProtection = want.TerminationGracePeriod, want.DeletionProtection
	m.HostLabels, m.Avoids, m.DedicatedCPUs = d.Placement.HostLabels, nil, d.Placement.DedicatedCPUs

	if anti := d.Placement.AntiAffinity; anti != nil && anti.Required {
		m.Avoids = anti.Labels
	}

	return m
}

// Strategy returns the run strategy; for a new VM, the default is Always.
func (d Desired) Strategy() string {
	if d.Metadata.RunStrategy == "" {
		return status.Always
	}

	return d.Metadata.RunStrategy
}

// PowerAction returns the action that the run strategy requires in the VM's present state.
func (d Desired) PowerAction(vm *inventory.VM) status.Action {
	return status.PowerAction(d.Metadata.RunStrategy, vm.Status(), vm.Phase(), vm.StatusReason())
}

func (d Desired) memory() uint64 {
	if d.Spec.Memory.Size == nil {
		return 0
	}

	return d.Spec.UsableMemory()
}

// memoryOn returns how much of the host's memory a new VM uses, including what QEMU needs.
func (d Desired) memoryOn(h *inventory.Host) uint64 {
	if d.memory() == 0 || h.Config.OvercommitGuestOverhead {
		return d.memory()
	}

	return d.memory() + domain.NewOverhead(d.Spec)
}

// AsksAgain reports whether the guest is asked again for devices that it hasn't released when it was asked before. They
// need a restart otherwise, which a transient VM can't have.
func (d Desired) AsksAgain(vm *inventory.VM) bool { return !d.LeavesHeld || !vm.Persistent }

// Declares reports whether the configuration decides about the own disk of a key.
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

// OwnDisk returns what is declared of the own disk of a key. is is the VM's record of that key, empty for none. A
// first-boot volume stays in its storage pool unless another one is declared: a new disk whose key comes first in the
// alphabet doesn't move the volume.
func (d Desired) OwnDisk(key string, is domain.OwnDisk) domain.OwnDisk {
	want := d.OwnDisks[key]
	if is.Volume != "" && !is.Creating && slices.Contains(d.AnyPool, key) {
		want.Pool = is.Pool
	}

	return want
}

// Hash identifies the configuration, so that an interrupted Create is recognized.
func (d Desired) Hash() string {
	hash := domain.SpecHash(d.Spec.Unassigned())
	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		o := d.OwnDisks[key]
		hash += fmt.Sprintf("\n%q %q %q %q %d %q", key, o.Pool, o.Image, o.Clone, o.Bytes, o.OnDestroy)
		if o.Content != "" {
			hash += " " + o.Content
		}

		if o.Preallocation != "" {
			hash += " preallocation " + o.Preallocation
		}
	}

	if len(d.OwnDisks) == 0 {
		return hash
	}

	sum := sha256.Sum256([]byte(hash))

	return hex.EncodeToString(sum[:])
}
