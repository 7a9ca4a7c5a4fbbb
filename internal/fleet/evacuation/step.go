package evacuation

// Step is what a plan does with one VM.
type Step struct {
	UUID string `json:"id"`
	Name string `json:"name"`
	// Strategy, Origin and Policy are those of the VM's rule.
	Strategy string `json:"strategy"`
	Origin   string `json:"origin"`
	Policy   string `json:"policy,omitempty"`
	// MigrationPolicy is the name of the policy that tunes the migration. It is "" for none, and where nothing is
	// moved.
	MigrationPolicy string `json:"migration_policy,omitempty"`
	// Method is one of the methods, Target the host that the VM moves to, "" if it doesn't move.
	Method string `json:"method"`
	Target string `json:"target,omitempty"`
	// Transfer is how many bytes are copied at least: the VM's memory, if that moves, and its disks and files.
	Transfer uint64 `json:"transfer,omitempty"`
	// Blockers say why the method is MethodBlocked or MethodPinned, or why it is the fallback of the VM's rule.
	Blockers []string `json:"blockers,omitempty"`

	// Doubts are checks of the move to the target that have no result yet. Any of them may block the move.
	Doubts []string `json:"-"`
	// Unblocks says which fallback would unblock the VM, if the method is MethodBlocked.
	Unblocks Unblocks `json:"-"`
	// StartsAtBoot says that the VM is left off, and that the host starts it when it boots.
	StartsAtBoot bool `json:"-"`
	// Memory is how much of the target's memory the VM requires, in bytes.
	Memory uint64 `json:"-"`
}

// Unblocks says which fallback of the VM's rule would unblock a VM that blocks a drain.
type Unblocks int

const (
	// UnblocksUnknown means that the step was not computed here.
	UnblocksUnknown Unblocks = iota
	// AnyFallback means that none is set, and that the VM can't be moved while it runs.
	AnyFallback
	// LeavingFallback is one that leaves the VM on its host, because what blocks it blocks ColdMigrate too.
	LeavingFallback
	// NoFallback means that the VM can be moved once other hosts accept it, so that no fallback applies, or that none is
	// possible.
	NoFallback
)

// Reasons for blocked VMs, in addition to those of migrations.
const (
	// ReasonNoRoom: the VM could be moved, but no host has room for it in addition to all others.
	ReasonNoRoom = "NoRoom"
	// ReasonNoTarget: there is no other host, or none that accepts VMs.
	ReasonNoTarget = "NoTarget"
	// ReasonPinned: the VM's configuration pins it to this host.
	ReasonPinned = "Pinned"
	// ReasonTransient: the VM has no definition, and would be gone when it is off.
	ReasonTransient = "Transient"
)
