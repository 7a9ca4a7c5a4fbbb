package evacuation

// Methods say what is done with a VM.
const (
	// MethodLive moves it while it runs.
	MethodLive = "LiveMigration"
	// MethodCold moves it while it is off: shut down before and started afterwards, if it runs.
	MethodCold = "ColdMigration"
	// MethodShutdown shuts its guest down.
	MethodShutdown = "Shutdown"
	// MethodSave saves its guest's memory on the host.
	MethodSave = "Save"
	// MethodLeave leaves it where it is, since it is off.
	MethodLeave = "Leave"
	// MethodExternal waits until another tool has moved it.
	MethodExternal = "External"
	// MethodPinned leaves it, though it should go: its configuration wants it on this host and would bring it back.
	MethodPinned = "Pinned"
	// MethodBlocked: nothing can be done, and the host can't be drained.
	MethodBlocked = "Blocked"
)

// MethodFor says what a rule means for a VM that runs: the answers of KubeVirt's eviction webhook, with the fallback
// where that says no more than that the VM can't be moved.
func MethodFor(r Rule, migratable bool) (method string) {
	switch {
	case r.Strategy == None:
		return MethodShutdown
	case r.Strategy == External:
		return MethodExternal
	case migratable:
		return MethodLive
	}
	switch r.Fallback {
	case ColdMigrate:
		return MethodCold
	case Shutdown:
		return MethodShutdown
	case Save:
		return MethodSave
	default:
		return MethodBlocked
	}
}

// RequestsEviction says whether a VM that is evicted by the method gets the mark of a request. As in KubeVirt these are
// the ones that are to go on elsewhere.
func RequestsEviction(method string) bool {
	switch method {
	case MethodLive, MethodCold, MethodExternal:
		return true
	default:
		return false
	}
}
