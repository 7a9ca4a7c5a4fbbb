package libvirt

import golibvirt "libvirt.org/go/libvirt"

// DomainState is the state of a domain, with KubeVirt's names.
type DomainState int

// The states of a domain, numbered as libvirt numbers them.
const (
	NoState DomainState = iota
	Running
	Blocked
	Paused
	ShuttingDown
	Shutoff
	Crashed
	PMSuspended
)

var stateNames = [...]string{
	NoState: "NoState", Running: "Running", Blocked: "Blocked", Paused: "Paused", ShuttingDown: "ShuttingDown",
	Shutoff: "Shutoff", Crashed: "Crashed", PMSuspended: "PMSuspended",
}

// String returns the state's name in KubeVirt, "Unknown" for a state that this version doesn't know.
func (s DomainState) String() string { return nameAt(stateNames[:], int(s)) }

// Active reports whether a domain in this state certainly has a hypervisor process. A crashed domain has none, unless
// its definition says to keep it (on_crash), see Domain.Active.
func (s DomainState) Active() bool { return s != Shutoff && s != Crashed }

// The reasons that code here or in other packages checks. The others are only reported.
const (
	ReasonBooted = "Booted"
	// ReasonStartingUp is the reason of a domain that waits to begin, for example for the memory that a migration
	// transfers.
	ReasonStartingUp = "StartingUp"
	// ReasonSave, ReasonDump and ReasonSnapshot are the reasons of a guest that is paused while its memory is written to a
	// file, ReasonIOError that of a guest whose storage failed.
	ReasonSave     = "Save"
	ReasonDump     = "Dump"
	ReasonSnapshot = "Snapshot"
	ReasonIOError  = "IOError"
	// ReasonMigration is the reason of a domain that is paused during its migration.
	ReasonMigration = "Migration"
	// ReasonMigrated is the reason of a domain that a migration started or stopped on this host.
	ReasonMigrated       = "Migrated"
	ReasonPostcopy       = "Postcopy"
	ReasonPostcopyFailed = "PostcopyFailed"
	// ReasonSaved is the reason of a domain that is off because its memory was written to a file.
	ReasonSaved = "Saved"
)

// unknownName is the name of numbers that a later libvirt may add.
const unknownName = "Unknown"

// reasonNames names virDomainGetState's reasons, with KubeVirt's names where it has them.
var reasonNames = map[DomainState][]string{
	Running: {
		golibvirt.DOMAIN_RUNNING_UNKNOWN:            unknownName,
		golibvirt.DOMAIN_RUNNING_BOOTED:             ReasonBooted,
		golibvirt.DOMAIN_RUNNING_MIGRATED:           ReasonMigrated,
		golibvirt.DOMAIN_RUNNING_RESTORED:           "Restored",
		golibvirt.DOMAIN_RUNNING_FROM_SNAPSHOT:      "FromSnapshot",
		golibvirt.DOMAIN_RUNNING_UNPAUSED:           "Unpaused",
		golibvirt.DOMAIN_RUNNING_MIGRATION_CANCELED: "MigrationCanceled",
		golibvirt.DOMAIN_RUNNING_SAVE_CANCELED:      "SaveCanceled",
		golibvirt.DOMAIN_RUNNING_WAKEUP:             "Wakeup",
		golibvirt.DOMAIN_RUNNING_CRASHED:            "Crashed",
		golibvirt.DOMAIN_RUNNING_POSTCOPY:           ReasonPostcopy,
		golibvirt.DOMAIN_RUNNING_POSTCOPY_FAILED:    ReasonPostcopyFailed,
	},
	Paused: {
		golibvirt.DOMAIN_PAUSED_UNKNOWN:         unknownName,
		golibvirt.DOMAIN_PAUSED_USER:            "User",
		golibvirt.DOMAIN_PAUSED_MIGRATION:       ReasonMigration,
		golibvirt.DOMAIN_PAUSED_SAVE:            ReasonSave,
		golibvirt.DOMAIN_PAUSED_DUMP:            ReasonDump,
		golibvirt.DOMAIN_PAUSED_IOERROR:         ReasonIOError,
		golibvirt.DOMAIN_PAUSED_WATCHDOG:        "Watchdog",
		golibvirt.DOMAIN_PAUSED_FROM_SNAPSHOT:   "FromSnapshot",
		golibvirt.DOMAIN_PAUSED_SHUTTING_DOWN:   "ShuttingDown",
		golibvirt.DOMAIN_PAUSED_SNAPSHOT:        ReasonSnapshot,
		golibvirt.DOMAIN_PAUSED_CRASHED:         "Crashed",
		golibvirt.DOMAIN_PAUSED_STARTING_UP:     ReasonStartingUp,
		golibvirt.DOMAIN_PAUSED_POSTCOPY:        ReasonPostcopy,
		golibvirt.DOMAIN_PAUSED_POSTCOPY_FAILED: ReasonPostcopyFailed,
		golibvirt.DOMAIN_PAUSED_API_ERROR:       "APIError",
	},
	ShuttingDown: {
		golibvirt.DOMAIN_SHUTDOWN_UNKNOWN: unknownName,
		golibvirt.DOMAIN_SHUTDOWN_USER:    "User",
	},
	Shutoff: {
		golibvirt.DOMAIN_SHUTOFF_UNKNOWN:       unknownName,
		golibvirt.DOMAIN_SHUTOFF_SHUTDOWN:      "Shutdown",
		golibvirt.DOMAIN_SHUTOFF_DESTROYED:     "Destroyed",
		golibvirt.DOMAIN_SHUTOFF_CRASHED:       "Crashed",
		golibvirt.DOMAIN_SHUTOFF_MIGRATED:      ReasonMigrated,
		golibvirt.DOMAIN_SHUTOFF_SAVED:         ReasonSaved,
		golibvirt.DOMAIN_SHUTOFF_FAILED:        "Failed",
		golibvirt.DOMAIN_SHUTOFF_FROM_SNAPSHOT: "FromSnapshot",
		golibvirt.DOMAIN_SHUTOFF_DAEMON:        "Daemon",
	},
	Crashed: {
		golibvirt.DOMAIN_CRASHED_UNKNOWN:  unknownName,
		golibvirt.DOMAIN_CRASHED_PANICKED: "Panicked",
	},
}

// reasonName names the reason of a state; "Unknown" if libvirt has no reasons for the state, or a new one.
func reasonName(state DomainState, reason int) string { return nameAt(reasonNames[state], reason) }

func nameAt(names []string, i int) string {
	if i < 0 || i >= len(names) || names[i] == "" {
		return unknownName
	}
	return names[i]
}
