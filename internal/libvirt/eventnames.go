package libvirt

import golibvirt "libvirt.org/go/libvirt"

// lifecycle names a kind of lifecycle event and its details.
type lifecycle struct {
	name    string
	details []string
}

var lifecycles = map[golibvirt.DomainEventType]lifecycle{
	golibvirt.DOMAIN_EVENT_DEFINED: {"Defined", []string{
		golibvirt.DOMAIN_EVENT_DEFINED_ADDED:         "Added",
		golibvirt.DOMAIN_EVENT_DEFINED_UPDATED:       "Updated",
		golibvirt.DOMAIN_EVENT_DEFINED_RENAMED:       "Renamed",
		golibvirt.DOMAIN_EVENT_DEFINED_FROM_SNAPSHOT: "FromSnapshot",
	}},
	golibvirt.DOMAIN_EVENT_UNDEFINED: {"Undefined", []string{
		golibvirt.DOMAIN_EVENT_UNDEFINED_REMOVED: "Removed",
		golibvirt.DOMAIN_EVENT_UNDEFINED_RENAMED: "Renamed",
	}},
	golibvirt.DOMAIN_EVENT_STARTED: {"Started", []string{
		golibvirt.DOMAIN_EVENT_STARTED_BOOTED:        ReasonBooted,
		golibvirt.DOMAIN_EVENT_STARTED_MIGRATED:      ReasonMigrated,
		golibvirt.DOMAIN_EVENT_STARTED_RESTORED:      "Restored",
		golibvirt.DOMAIN_EVENT_STARTED_FROM_SNAPSHOT: "FromSnapshot",
		golibvirt.DOMAIN_EVENT_STARTED_WAKEUP:        "Wakeup",
		golibvirt.DOMAIN_EVENT_STARTED_RECREATED:     "Recreated",
	}},
	golibvirt.DOMAIN_EVENT_SUSPENDED: {"Suspended", []string{
		golibvirt.DOMAIN_EVENT_SUSPENDED_PAUSED:          "Paused",
		golibvirt.DOMAIN_EVENT_SUSPENDED_MIGRATED:        ReasonMigrated,
		golibvirt.DOMAIN_EVENT_SUSPENDED_IOERROR:         "IOError",
		golibvirt.DOMAIN_EVENT_SUSPENDED_WATCHDOG:        "Watchdog",
		golibvirt.DOMAIN_EVENT_SUSPENDED_RESTORED:        "Restored",
		golibvirt.DOMAIN_EVENT_SUSPENDED_FROM_SNAPSHOT:   "FromSnapshot",
		golibvirt.DOMAIN_EVENT_SUSPENDED_API_ERROR:       "APIError",
		golibvirt.DOMAIN_EVENT_SUSPENDED_POSTCOPY:        ReasonPostcopy,
		golibvirt.DOMAIN_EVENT_SUSPENDED_POSTCOPY_FAILED: ReasonPostcopyFailed,
		golibvirt.DOMAIN_EVENT_SUSPENDED_GUEST_SHUTDOWN:  "GuestShutdown",
	}},
	golibvirt.DOMAIN_EVENT_RESUMED: {"Resumed", []string{
		golibvirt.DOMAIN_EVENT_RESUMED_UNPAUSED:        "Unpaused",
		golibvirt.DOMAIN_EVENT_RESUMED_MIGRATED:        ReasonMigrated,
		golibvirt.DOMAIN_EVENT_RESUMED_FROM_SNAPSHOT:   "FromSnapshot",
		golibvirt.DOMAIN_EVENT_RESUMED_POSTCOPY:        ReasonPostcopy,
		golibvirt.DOMAIN_EVENT_RESUMED_POSTCOPY_FAILED: ReasonPostcopyFailed,
	}},
	golibvirt.DOMAIN_EVENT_STOPPED: {"Stopped", []string{
		golibvirt.DOMAIN_EVENT_STOPPED_SHUTDOWN:      "Shutdown",
		golibvirt.DOMAIN_EVENT_STOPPED_DESTROYED:     "Destroyed",
		golibvirt.DOMAIN_EVENT_STOPPED_CRASHED:       "Crashed",
		golibvirt.DOMAIN_EVENT_STOPPED_MIGRATED:      ReasonMigrated,
		golibvirt.DOMAIN_EVENT_STOPPED_SAVED:         "Saved",
		golibvirt.DOMAIN_EVENT_STOPPED_FAILED:        "Failed",
		golibvirt.DOMAIN_EVENT_STOPPED_FROM_SNAPSHOT: "FromSnapshot",
		golibvirt.DOMAIN_EVENT_STOPPED_RECREATED:     "Recreated",
	}},
	golibvirt.DOMAIN_EVENT_SHUTDOWN: {"Shutdown", []string{
		golibvirt.DOMAIN_EVENT_SHUTDOWN_FINISHED: "Finished",
		golibvirt.DOMAIN_EVENT_SHUTDOWN_GUEST:    "Guest",
		golibvirt.DOMAIN_EVENT_SHUTDOWN_HOST:     "Host",
	}},
	golibvirt.DOMAIN_EVENT_PMSUSPENDED: {"PMSuspended", []string{
		golibvirt.DOMAIN_EVENT_PMSUSPENDED_MEMORY: "Memory",
		golibvirt.DOMAIN_EVENT_PMSUSPENDED_DISK:   "Disk",
	}},
	golibvirt.DOMAIN_EVENT_CRASHED: {"Crashed", []string{
		golibvirt.DOMAIN_EVENT_CRASHED_PANICKED:    "Panicked",
		golibvirt.DOMAIN_EVENT_CRASHED_CRASHLOADED: "Crashloaded",
	}},
}

func lifecycleNames(event golibvirt.DomainEventType, detail int) (name, reason string) {
	l, ok := lifecycles[event]
	if !ok {
		return unknownName, unknownName
	}
	return l.name, nameAt(l.details, detail)
}

var ioErrorActions = []string{
	golibvirt.DOMAIN_EVENT_IO_ERROR_NONE:   "None",
	golibvirt.DOMAIN_EVENT_IO_ERROR_PAUSE:  "Pause",
	golibvirt.DOMAIN_EVENT_IO_ERROR_REPORT: "Report",
}

var watchdogActions = []string{
	golibvirt.DOMAIN_EVENT_WATCHDOG_NONE:      "None",
	golibvirt.DOMAIN_EVENT_WATCHDOG_PAUSE:     "Pause",
	golibvirt.DOMAIN_EVENT_WATCHDOG_RESET:     "Reset",
	golibvirt.DOMAIN_EVENT_WATCHDOG_POWEROFF:  "Poweroff",
	golibvirt.DOMAIN_EVENT_WATCHDOG_SHUTDOWN:  "Shutdown",
	golibvirt.DOMAIN_EVENT_WATCHDOG_DEBUG:     "Debug",
	golibvirt.DOMAIN_EVENT_WATCHDOG_INJECTNMI: "InjectNMI",
}

var memoryFailureActions = []string{
	golibvirt.DOMAIN_EVENT_MEMORY_FAILURE_ACTION_IGNORE: "Ignore",
	golibvirt.DOMAIN_EVENT_MEMORY_FAILURE_ACTION_INJECT: "Inject",
	golibvirt.DOMAIN_EVENT_MEMORY_FAILURE_ACTION_FATAL:  "Fatal",
	golibvirt.DOMAIN_EVENT_MEMORY_FAILURE_ACTION_RESET:  "Reset",
}

var memoryFailureRecipients = []string{
	golibvirt.DOMAIN_EVENT_MEMORY_FAILURE_RECIPIENT_HYPERVISOR: "Hypervisor",
	golibvirt.DOMAIN_EVENT_MEMORY_FAILURE_RECIPIENT_GUEST:      "Guest",
}

var blockJobTypes = []string{
	golibvirt.DOMAIN_BLOCK_JOB_TYPE_UNKNOWN:       unknownName,
	golibvirt.DOMAIN_BLOCK_JOB_TYPE_PULL:          "Pull",
	golibvirt.DOMAIN_BLOCK_JOB_TYPE_COPY:          "Copy",
	golibvirt.DOMAIN_BLOCK_JOB_TYPE_COMMIT:        "Commit",
	golibvirt.DOMAIN_BLOCK_JOB_TYPE_ACTIVE_COMMIT: "ActiveCommit",
	golibvirt.DOMAIN_BLOCK_JOB_TYPE_BACKUP:        "Backup",
}

var blockJobStatuses = []string{
	golibvirt.DOMAIN_BLOCK_JOB_COMPLETED: "Completed",
	golibvirt.DOMAIN_BLOCK_JOB_FAILED:    "Failed",
	golibvirt.DOMAIN_BLOCK_JOB_CANCELED:  "Canceled",
	golibvirt.DOMAIN_BLOCK_JOB_READY:     "Ready",
}

var trayChanges = []string{
	golibvirt.DOMAIN_EVENT_TRAY_CHANGE_OPEN:  "Open",
	golibvirt.DOMAIN_EVENT_TRAY_CHANGE_CLOSE: "Closed",
}
