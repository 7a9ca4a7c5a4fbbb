package inventory

import (
	"cmp"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// VM is what the fleet knows of one VM.
type VM struct {
	UUID, Name string
	// Host is where it runs, or where its definition is when it does not, and HostUUID that host's libvirt UUID.
	Host, HostUUID string
	State          libvirt.DomainState
	// Reason is the domain state's own, as libvirt names it.
	Reason                        string
	Active, Persistent, Autostart bool
	// Migrating says that it is on its way between two hosts. Host is then the one it runs on.
	Migrating bool
	// Stranded says that its guest stands still for a migration that is over.
	Stranded bool
	// ActiveHosts are the hosts that have a hypervisor process of it.
	ActiveHosts map[string]status.Role
	// HostStates say how each of these processes stands, in libvirt's words.
	HostStates map[string]string
	// ManagedSave says that the memory of the stopped VM is kept on the host and comes back with the next start.
	ManagedSave bool
	// PersistentSpec is what the next start would give, LiveSpec what runs. Each is nil when there is no such definition.
	PersistentSpec, LiveSpec *domain.Spec
	Metadata                 domain.Metadata
	// AgentConnected says that the guest agent's channel is open.
	AgentConnected bool
	// StaleHosts have a leftover definition of the VM.
	StaleHosts []string
	// Stopped says how the operation that returned this shut the VM down. It is empty when it did not.
	Stopped Outcome
	// SilentHosts did not answer; what they have is not known.
	SilentHosts []string

	// acpi says that its guest can be asked to shut down without an agent.
	acpi  bool
	Entry *Entry
	On    *Host
	// Peers are the names of the hosts that answered, by their libvirt UUIDs.
	Peers map[string]string
}

// CurrentSpec is what there is of it now: what runs, else what the next start would give.
func (vm *VM) CurrentSpec() *domain.Spec { return cmp.Or(vm.LiveSpec, vm.PersistentSpec) }

// DeclaredSpec is what a configuration changes: what the next start would give, else, of a transient VM, what runs.
func (vm *VM) DeclaredSpec() *domain.Spec { return cmp.Or(vm.PersistentSpec, vm.LiveSpec) }

// Phase is the instance's phase, as KubeVirt would name it.
func (vm *VM) Phase() string { return status.InstancePhase(vm.StateFacts()) }

// Status is the VM's status, as KubeVirt would print it.
func (vm *VM) Status() string { return status.PrintableStatus(vm.StateFacts()) }

// StatusReason says why the VM is in its state, in libvirt's words.
func (vm *VM) StatusReason() string {
	if vm.Stranded {
		return status.ReasonStranded
	}

	return status.ShownReason(vm.State.String(), vm.Reason)
}

// RestartRequired says that the next start would give another VM than the one that runs. It is what the condition of
// that name says.
func (vm *VM) RestartRequired() bool {
	return len(vm.pending()) > 0
}

// Running says that the guest is running, not only started.
func (vm *VM) Running() bool { return vm.Status() == status.StatusRunning }

// Paused says that the guest exists and stands still.
func (vm *VM) Paused() bool { return vm.Status() == status.StatusPaused }

// LastKnown is what the reader remembers of where the VM was. Both are empty for a VM that was never seen before.
type LastKnown struct{ Host, HostUUID string }

// NewVM is the VM that a host told of.
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
	vm.AgentConnected = p.Live != nil && p.Live.AgentConnected()

	return vm, nil
}

// IsNotFound says that something is not there: a VM, or what it needs.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Conn is the host that has the VM, for questions about its guest.
func (vm *VM) Conn() *libvirt.Host { return vm.On.Conn }

// Affect is every definition that the VM has.
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

// Firmware is what the definition says of it, and what libvirt chose where that leaves the choice to it.
func (vm *VM) Firmware() domain.Firmware {
	return domain.Merge(vm.PersistentSpec, vm.LiveSpec, nil, nil).Firmware
}
