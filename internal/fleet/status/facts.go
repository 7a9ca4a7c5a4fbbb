package status

import (
	"fmt"
	"time"
)

// Fact is a fact that may not have been observed. Then Value is nil, and Why says why.
type Fact[T any] struct {
	Value *T
	Why   string
}

// Seen returns a fact that was observed.
func Seen[T any](value T) Fact[T] { return Fact[T]{Value: &value} }

// Unseen returns a fact that was not observed, with the reason.
func Unseen[T any](why string) Fact[T] { return Fact[T]{Why: why} }

// Facts are the observations of one virtual machine. While Host is "", only SilentHosts and RunsOn are meaningful.
type Facts struct {
	// Host is the VM's host; "" if it is unknown, because a host that may have the VM doesn't answer.
	Host string
	// SilentHosts did not answer.
	SilentHosts []string
	// RunsOn are the hosts on which the VM runs at the same time, if there are several; then Host is "".
	RunsOn []string
	// Doubles are other VMs, of other UUIDs, that run under the VM's name and write to a disk of it.
	Doubles []Double

	// State and Reason are those of the domain, by the names of this package.
	State, Reason string
	// RestartReason is the reason to show in place of Reason, if the VM is off since an interrupted restart: see
	// ReasonRestartInterrupted.
	RestartReason string
	// Active says that there is a hypervisor process, Persistent that there is a definition that outlives it.
	Active, Persistent bool
	// AskedFirst says that the guest is asked to shut down before the VM is destroyed: it has ACPI and a grace period.
	AskedFirst bool
	// LostInPostCopy says that the VM's last migration failed while its memory was on both hosts.
	LostInPostCopy bool
	// Migrating says that the VM is being migrated, MigrationSource that Host is the source.
	Migrating, MigrationSource bool
	// StartedSince is when Active last changed; zero if unknown.
	StartedSince time.Time
	// MigratingSince is when the migration began; zero if unknown.
	MigratingSince time.Time
	// PausedSince is when the guest was paused for the present State and Reason; zero if unknown.
	PausedSince time.Time
	// ActiveHosts are the hosts that have a hypervisor process of the VM, with their roles.
	ActiveHosts map[string]Role
	// HostStates are the states of these processes.
	HostStates map[string]string
	// PostCopyPeer is the host of the other part of a guest whose migration failed in post-copy; "" if no record of the
	// provider names it.
	PostCopyPeer string
	// PostCopyFromPeer says that the guest was on its way from PostCopyPeer to Host, by that record.
	PostCopyFromPeer bool
	// PostCopySent are the other hosts whose process of the VM ended because a migration from there was complete.
	PostCopySent []string
	// Resumer says which run is resuming a migration that failed in post-copy; "" if no run is.
	Resumer Fact[string]
	// StaleHosts have a stale definition. StaleSince is when the migration that left it ended; zero if unknown.
	StaleHosts []string
	StaleSince time.Time

	// AgentChannel says that the VM has a channel for a guest agent, AgentConnected that a program in the guest has opened
	// it.
	AgentChannel, AgentConnected bool
	// AgentAnswers says whether the agent answered a query.
	AgentAnswers Fact[bool]
	// AgentLacks are the commands that the provider needs and the agent doesn't support.
	AgentLacks Fact[[]string]
	// Addresses are the addresses of the VM's interfaces, by the interface's key.
	Addresses map[string][]string

	// Blockers are the blockers of a move of the VM, StorageBlockers those of a move together with its storage.
	Blockers, StorageBlockers Fact[[]Blocker]
	// Pending are the changes that the next start would make.
	Pending []Pending
	// VCPUs and Memory (in bytes) compare what the running VM has with its definition.
	VCPUs, Memory Amount
	// Disks are the VM's disks that have a source.
	Disks Fact[[]Disk]
	// CutOff are the interfaces that libvirt no longer connects to their networks.
	CutOff Fact[[]CutOff]

	// Creating is when an unfinished creation began, nil if there is none. Creator is the run that began it.
	Creating *time.Time
	Creator  string
	// PinnedTo is the host to which the configuration pins the VM; "" if it may be on any.
	PinnedTo string
	// EvictedFrom is the host that the VM is requested to leave; "" if there is no request. EvictedBy is the run that
	// requested it.
	EvictedFrom, EvictedBy string
	// EvictedSince is when the eviction was requested; zero if unknown.
	EvictedSince time.Time
}

// Double is a VM that runs in addition to another, under the same name and with the same disk. A VM that was created
// again while its host was away is the double of the one that comes back with the host.
type Double struct {
	// UUID and Host are those of the double, Disk the key of the disk in the other VM.
	UUID, Host, Disk string
}

// Role is the role of a host that has a hypervisor process of a VM.
type Role string

// The roles.
const (
	// RoleActive is the only host of a VM that isn't being migrated.
	RoleActive Role = "active"
	// RoleSource and RoleTarget are the two hosts of a migration.
	RoleSource Role = "source"
	RoleTarget Role = "target"
)

// Pending is a change that waits for a restart.
type Pending struct{ Path, Why string }

// Amount is how much of a resource a running VM has, how much its definition requires, and how much it can get without
// a restart.
type Amount struct{ Now, Wanted, Max uint64 }

// Blocker is something that blocks a migration, or may block it.
type Blocker struct {
	// Reason is KubeVirt's code, or a code of the same form.
	Reason string
	// Status is the status that the blocker gives the condition LiveMigratable: False if it blocks, Unknown if this can't
	// be determined in advance. libvirt or QEMU then decides, before anything is changed.
	Status ConditionStatus
	// Attribute is the path of the attribute that causes the blocker, or "".
	Attribute string
	// Message says what blocks, Remedy what would remove the blocker.
	Message, Remedy string
	// Lacks is the object that the target lacks, and that a resource of the same apply may create there; the zero value if
	// none.
	Lacks HostObject
	// Temporary says that the blocker ends by itself, such as a backup: a run that has to move the VM waits for that.
	Temporary bool
}

// String returns the blocker in a line: its reason code, what blocks, and what would remove it.
func (b Blocker) String() string { return fmt.Sprintf("%s: %s. %s", b.Reason, b.Message, b.Remedy) }

// Disk is what was observed of one disk's source.
type Disk struct {
	// Key is the disk's key.
	Key string
	// Ready says whether the source exists and can be opened.
	Ready ConditionStatus
	// Why says why not, or why that is unknown.
	Why string
	// Layer is the layer from which Ready was read; "" if it is the process that has the disk open.
	Layer Layer
}
