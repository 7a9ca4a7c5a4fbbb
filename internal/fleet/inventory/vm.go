package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// VM is what the fleet knows about one VM.
type VM struct {
	UUID, Name string
	// Host is the host on which it runs, or that has its definition while it doesn't run. HostUUID is that host's UUID
	// in libvirt.
	Host, HostUUID string
	State          libvirt.DomainState
	// Reason is the reason of the domain's state, by libvirt's name.
	Reason                        string
	Active, Persistent, Autostart bool
	// Migrating says that a migration moves it between two hosts. Host is then the one on which it runs.
	Migrating bool
	// Stranded says that its guest is paused for a migration that is over.
	Stranded bool
	// RestoredPaused says that its guest is paused as for a migration, and that its host runs no job on it: its memory was
	// restored from a file and it was left paused, or a migration that isn't recorded was lost at the handover.
	RestoredPaused bool
	// StartInterrupted says that its guest is paused in the same way because a run started it from saved memory, and
	// didn't get to resume it.
	StartInterrupted bool
	// LeftSource is the source of a post-copy migration that still has a process of it, although all of its memory has
	// arrived on its host; "" for none.
	LeftSource string
	// ActiveHosts are the hosts that have a hypervisor process of it.
	ActiveHosts map[string]status.Role
	// HostStates are the states of these processes, by libvirt's names.
	HostStates map[string]string
	// ManagedSave says that the host keeps the memory of the stopped VM, and restores it at the next start.
	ManagedSave bool
	// PersistentSpec is the definition for the next start, LiveSpec the one that runs. Each is nil when there is none.
	PersistentSpec, LiveSpec *domain.Spec
	Metadata                 domain.Metadata
	// AgentConnected says that the guest agent's channel is open.
	AgentConnected bool
	// StaleHosts are the hosts with a stale definition of the VM.
	StaleHosts []string
	// Stopped says how the operation that returned this VM shut it down. It is empty if the operation didn't.
	Stopped Outcome
	// KeptDisks are own disks that the operation that returned this VM should have removed, and why they were kept.
	KeptDisks []string
	// LostCheckpoints are checkpoints that the move that returned this VM couldn't bring along, and why.
	LostCheckpoints []string
	// PasswordSet says that the update that returned this VM has set the password of its graphics, or removed it, as far
	// as it was to.
	PasswordSet bool
	// TriedVolumes are volumes that were left and that the operation couldn't remove. They stay recorded.
	TriedVolumes []domain.LeftVolume
	// Replaced are the own disks of the stopped VM in whose place it has other files, if that was looked at.
	Replaced []ReplacedDisk
	// Interrupted are the UnfinishedCopies, unless a run is still making them.
	Interrupted []domain.LeftVolume
	// SilentHosts are the hosts that didn't answer. What they have is unknown.
	SilentHosts []string

	// acpi says that its guest can be shut down without an agent.
	acpi  bool
	Entry *Entry
	On    *Host
	// Peers are the names of the hosts that answered, by their libvirt UUIDs.
	Peers map[string]string
	// twins describes, by host, the VM and a stale definition that may have newer data: see CopiedTwice.
	twins map[string]string
	// asked are the names of all hosts of the configuration, if the VM was looked for on all of them.
	asked []string
	// sent are the other hosts whose process of it ended because a migration from there was complete. forgot are those
	// where it is off and libvirt doesn't know why: its daemon was restarted.
	sent, forgot []string
}

// CurrentSpec is the definition that runs, or else the one for the next start.
func (vm *VM) CurrentSpec() *domain.Spec { return cmp.Or(vm.LiveSpec, vm.PersistentSpec) }

// DeclaredSpec is the definition that a configuration changes: the one for the next start, or of a transient VM the one
// that runs.
func (vm *VM) DeclaredSpec() *domain.Spec { return cmp.Or(vm.PersistentSpec, vm.LiveSpec) }

// DevicePaths returns the paths of the devices of which a VM may have several: those that its definition has, and those
// that it has only while it runs.
func (vm *VM) DevicePaths() []string {
	var paths []string
	if spec := vm.DeclaredSpec(); spec != nil {
		paths = spec.DevicePaths()
	}

	if vm.LiveSpec != nil && vm.PersistentSpec != nil {
		paths = append(paths, domain.AlignKeys(vm.LiveSpec, vm.PersistentSpec).DevicePaths()...)
	}

	slices.Sort(paths)

	return slices.Compact(paths)
}

// UndefineCommand is the command, with the host on which to run it, that removes the VM's definition by hand, whatever
// the VM has in addition to it. Disks stay.
func (vm *VM) UndefineCommand() string {
	return fmt.Sprintf("\"virsh undefine --nvram --managed-save %s\" on host %q", vm.UUID, vm.Host)
}

// RunningSpec returns what runs, as want is compared with it: devices have the keys under which want declares them, and
// values that libvirt added by itself are left out. It returns nil if the VM is off.
func (vm *VM) RunningSpec(want domain.Spec) *domain.Spec {
	if vm.LiveSpec == nil || vm.PersistentSpec == nil {
		return vm.LiveSpec
	}

	live := domain.WithoutLibvirtDefaults(*domain.AlignKeys(vm.LiveSpec, vm.PersistentSpec), *vm.PersistentSpec)

	return new(domain.FollowDefinition(live, *vm.PersistentSpec, want))
}

// Phase is the phase of the instance, by KubeVirt's name.
func (vm *VM) Phase() string { return status.InstancePhase(vm.StateFacts()) }

// Status is the printable status of the VM, by KubeVirt's name.
func (vm *VM) Status() string { return status.PrintableStatus(vm.StateFacts()) }

// StatusReason is the reason of the VM's state, by libvirt's name.
func (vm *VM) StatusReason() string {
	if why := vm.pauseReason(); why != "" {
		return why
	}

	return status.ShownReason(vm.State.String(), cmp.Or(vm.restartReason(), vm.Reason))
}

// pauseReason returns the status reason of a VM that is paused as for a migration and isn't in one, "" for any other.
func (vm *VM) pauseReason() string {
	switch {
	case vm.Stranded:
		return status.ReasonStranded
	case vm.RestoredPaused:
		return status.ReasonRestoredPaused
	case vm.StartInterrupted:
		return status.ReasonStartInterrupted
	default:
		return ""
	}
}

// RestartRequired says that the definition for the next start differs from the one that runs, as the condition of that
// name does.
func (vm *VM) RestartRequired() bool {
	return len(vm.pending()) > 0
}

// Running says that the guest runs. One that is paused is started, but doesn't run.
func (vm *VM) Running() bool { return vm.Status() == status.StatusRunning }

// Paused says that the guest is started and doesn't run.
func (vm *VM) Paused() bool { return vm.Status() == status.StatusPaused }

// LastKnown is where the reader saw the VM last. Host and HostUUID are empty for a VM that it never saw.
type LastKnown struct {
	Host, HostUUID string
	// Off says that the VM was off.
	Off bool
}

// NewVM makes the VM that a host reports.
func NewVM(a Reply) (*VM, error) {
	e := a.Domain

	p := e.Parse()
	if p.Err != nil {
		return nil, &Error{
			VM: e.Name, Host: a.Host.Name, Kind: ErrInvalid, Err: p.Err,
			Detail: "the definition on the host can't be understood",
		}
	}

	if p.Definition() == nil {
		return nil, &Error{
			VM: e.Name, Host: a.Host.Name, Kind: ErrNotFound, Detail: "the host has no definition of it any more",
		}
	}

	vm := &VM{
		UUID: e.UUID, Name: e.Name, Host: a.Host.Name, HostUUID: a.Info.UUID,
		State: e.State, Reason: e.Reason,
		Active: e.Active(), Persistent: e.Persistent, Autostart: e.Autostart, ManagedSave: e.ManagedSave,
		Metadata: p.Definition().Metadata(),
		acpi:     p.Definition().ACPI(), Entry: e, On: a.Host,
	}

	vm.PersistentSpec, vm.LiveSpec = p.persistentSpec, p.LiveSpec
	if vm.LiveSpec != nil && refusesVirtualPortChange(a.Info) {
		live := *vm.LiveSpec // all readers share the parsed one
		live.FixedVirtualPorts = true
		vm.LiveSpec = &live
	}

	if vm.LiveSpec != nil && vm.PersistentSpec != nil &&
		(vm.PersistentSpec.Started != nil || vm.PersistentSpec.Held != nil) {
		live := *vm.LiveSpec // A definition made of a running VM's brought the record of an earlier run.
		live.Started, live.Held = nil, nil
		vm.LiveSpec = &live
	}

	vm.AgentConnected = p.Live != nil && p.Live.AgentConnected()

	return vm, nil
}

// refusesVirtualPortChange reports whether the host's libvirt refuses to connect a running VM's interface to another
// network if the interface has a virtual port, such as one of Open vSwitch, before or after ("unable to change config
// on 'network' network type"). Since 10.8.0 it can ("network/qemu: fix some cases where device-update of a network
// interface was failing", in its release notes).
func refusesVirtualPortChange(info *libvirt.HostInfo) bool {
	return info.Driver == "QEMU" && !info.LibvirtVersion.AtLeast(10, 8, 0)
}

// IsNotFound says that a VM, or something that it needs, doesn't exist.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Conn is the connection to the host that has the VM, for questions about its guest.
func (vm *VM) Conn() *libvirt.Host { return vm.On.Conn }

// Affect selects every definition that the VM has.
func (vm *VM) Affect() libvirt.Affect {
	var affect libvirt.Affect
	if vm.Persistent {
		affect |= libvirt.AffectConfig
	}

	if vm.Active {
		affect |= libvirt.AffectLive
	}

	return affect
}

// Firmware is the firmware of the definition, with what libvirt chose where the definition leaves that to libvirt.
func (vm *VM) Firmware() domain.Firmware {
	return domain.Merge(vm.PersistentSpec, vm.LiveSpec, nil, nil).Firmware
}
