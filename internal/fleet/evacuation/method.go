package evacuation

import "slices"

// Methods of evicting a VM.
const (
	// MethodLive moves the VM while it runs.
	MethodLive = "LiveMigration"
	// MethodCold moves the VM while it is off. A running VM is shut down before and started afterwards.
	MethodCold = "ColdMigration"
	// MethodShutdown shuts the guest down.
	MethodShutdown = "Shutdown"
	// MethodSave saves the guest's memory on the host.
	MethodSave = "Save"
	// MethodLeave leaves the VM where it is, since it is off.
	MethodLeave = "Leave"
	// MethodExternal waits until another tool has moved the VM.
	MethodExternal = "External"
	// MethodPinned leaves the VM, though it should leave: its configuration pins it to this host and would move it
	// back.
	MethodPinned = "Pinned"
	// MethodBlocked: the VM can't be evicted, so the host can't be drained.
	MethodBlocked = "Blocked"
)

// MethodFor returns the method that a rule selects for a running VM: that of KubeVirt's eviction webhook, or the
// fallback where the webhook only answers that the VM can't be moved.
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

// FallsBack says whether a running VM is evicted by the method because it can't be moved while it runs.
func (r Rule) FallsBack(method string) bool {
	falls := []string{MethodCold, MethodShutdown, MethodSave}
	return r.Strategy != None && r.Strategy != External && slices.Contains(falls, method)
}

// RequestsEviction says whether a VM that is evicted by the method gets an eviction request. As in KubeVirt, VMs
// that are to run on another host get a request.
func RequestsEviction(method string) bool {
	switch method {
	case MethodLive, MethodCold, MethodExternal:
		return true
	default:
		return false
	}
}
