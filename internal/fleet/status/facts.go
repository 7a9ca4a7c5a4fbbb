package status

import (
	"fmt"
	"time"
)

// Fact is a fact that may not have been observed. Value is nil then, and Why says why.
type Fact[T any] struct {
	Value *T
	Why   string
}

// Seen is a fact that was observed.
func Seen[T any](value T) Fact[T] { return Fact[T]{Value: &value} }

// Unseen is a fact that was not, with the reason.
func Unseen[T any](why string) Fact[T] { return Fact[T]{Why: why} }

// Facts are what was observed of one virtual machine. While Host is "", only SilentHosts and RunsOn mean anything.
type Facts struct {
	// Host is where the VM is; "" when that isn't known, because a host that may have it doesn't answer.
	Host string
	// SilentHosts did not answer.
	SilentHosts []string
	// RunsOn are the hosts on which it runs at the same time, where that are several; Host is "" then.
	RunsOn []string

	// State and Reason are the domain's, by the names of this package.
	State, Reason string
	// Active says that there is a hypervisor process, Persistent that there is a definition which outlives it.
	Active, Persistent bool
	// AskedFirst says that its guest is asked to shut down before it is forced off: it has ACPI, and time to do so.
	AskedFirst bool
	// LostInPostCopy says that its last migration failed while its memory was on both hosts.
	LostInPostCopy bool
	// Migrating says that the VM is on its way between two hosts, MigrationSource that Host is the one it leaves.
	Migrating, MigrationSource bool
	// StartedSince is when Active became what it is; zero when unknown.
	StartedSince time.Time
	// MigratingSince is when the migration began; zero when unknown.
	MigratingSince time.Time
	// PausedSince is when the guest was stopped for what State and Reason say; zero when unknown.
	PausedSince time.Time
	// ActiveHosts are the hosts that have a hypervisor process of the VM, with its Role.
	ActiveHosts map[string]Role
	// HostStates say how each of these processes stands.
	HostStates map[string]string
	// PostCopyPeer is the host of the other part of a guest whose migration failed in post-copy; "" when no record of ours
	// names it.
	PostCopyPeer string
	// Resumer says which run repairs a migration that broke in post-copy and may be resumed; "" is none any more.
	Resumer Fact[string]
	// StaleHosts have a leftover definition. StaleSince is when the migration ended that left it; zero when unknown.
	StaleHosts []string
	StaleSince time.Time

	// AgentChannel says that the VM has a channel for a guest agent, AgentConnected that a program in the guest has
	// opened it.
	AgentChannel, AgentConnected bool
	// AgentAnswers says whether the agent answered a question.
	AgentAnswers Fact[bool]
	// AgentLacks are the commands that the agent doesn't run, of those that are needed.
	AgentLacks Fact[[]string]
	// Addresses are those of the VM's interfaces, by the interface's key.
	Addresses map[string][]string

	// Blockers is what blocks moving the VM, StorageBlockers what blocks moving it together with its storage.
	Blockers, StorageBlockers Fact[[]Blocker]
	// Pending is what the next start would change.
	Pending []Pending
	// VCPUs and Memory (in bytes) compare what the running VM has with what its definition asks for.
	VCPUs, Memory Amount
	// Disks are the VM's disks that have a source.
	Disks Fact[[]Disk]

	// Creating is when a creation began that isn't finished, and Creator who began it; nil is none.
	Creating *time.Time
	Creator  string
	// PinnedTo is the host that the configuration wants the VM on; "" is any.
	PinnedTo string
	// EvictedFrom is the host that a request wants the VM away from; "" is none. EvictedBy says who asked.
	EvictedFrom, EvictedBy string
	// EvictedSince is when that was asked; zero when unknown.
	EvictedSince time.Time
}

// Role says what a host is to a VM that has a hypervisor process there.
type Role string

// The roles.
const (
	// RoleActive is the only host of a VM that isn't moved.
	RoleActive Role = "active"
	// RoleSource and RoleTarget are the hosts of a migration.
	RoleSource Role = "source"
	RoleTarget Role = "target"
)

// Pending is a change that waits for a restart.
type Pending struct{ Path, Why string }

// Amount is how much of something a running VM has, how much its definition asks for, and how much it can be given
// without a restart.
type Amount struct{ Now, Wanted, Max uint64 }

// Blocker is something that blocks a migration, or may.
type Blocker struct {
	// Reason is KubeVirt's code, or one named alike.
	Reason string
	// Status is what the condition LiveMigratable would be because of it: False for what blocks, Unknown for what no
	// question settles beforehand. libvirt or QEMU will, before anything is changed.
	Status ConditionStatus
	// Attribute is the path of the attribute that it is about; "" is none.
	Attribute string
	// Message says what blocks, Remedy what would lift it.
	Message, Remedy string
	// Lacks is what the target lacks, which a resource of the same apply may create there; the zero value is nothing.
	Lacks HostObject
	// Temporary says that it ends by itself, such as a backup: whoever has to move the VM waits for that.
	Temporary bool
}

// String is the blocker in a line: its reason code, what blocks, and what would lift it.
func (b Blocker) String() string { return fmt.Sprintf("%s: %s. %s", b.Reason, b.Message, b.Remedy) }

// Disk is what was found of one disk's source.
type Disk struct {
	// Key is the disk's key.
	Key string
	// Ready says whether the source is there and opens.
	Ready ConditionStatus
	// Why says why not, or why that isn't known.
	Why string
	// Layer is where that was read from; "" is who has the disk open.
	Layer Layer
}
