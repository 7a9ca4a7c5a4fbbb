package faults

// Fault is what goes wrong.
type Fault string

// Operation is what the provider does meanwhile.
type Operation string

// The faults, in the order of the guide.
const (
	SSHAtSource    Fault = "SSH cut at the source"
	SSHAtTarget    Fault = "SSH cut at the target"
	LibvirtdKilled Fault = "libvirtd killed"
	LibvirtdFrozen Fault = "libvirtd frozen"
	QEMUKilled     Fault = "QEMU killed"
	QEMUFrozen     Fault = "QEMU frozen"
	ProviderKilled Fault = "provider killed"
	ProviderFrozen Fault = "provider frozen"
	LinkCut        Fault = "link cut"
	DiskFull       Fault = "disk full"
	AgentHung      Fault = "agent hung"
	SecondRun      Fault = "second run"
)

// The operations, in the order of the guide.
const (
	Create   Operation = "Create"
	Update   Operation = "Update"
	Stop     Operation = "Stop"
	PreCopy  Operation = "Live migration, pre-copy"
	PostCopy Operation = "Live migration, post-copy"
	ColdMove Operation = "Cold move"
	Drain    Operation = "Drain"
	Restore  Operation = "Restore"
)

// Faults are all faults.
var Faults = []Fault{
	SSHAtSource, SSHAtTarget, LibvirtdKilled, LibvirtdFrozen, QEMUKilled, QEMUFrozen, ProviderKilled, ProviderFrozen,
	LinkCut, DiskFull, AgentHung, SecondRun,
}

// Operations are all operations.
var Operations = []Operation{Create, Update, Stop, PreCopy, PostCopy, ColdMove, Drain, Restore}

// Cell is what comes of a fault during an operation.
type Cell struct {
	Fault Fault
	// Sees is what the operator sees of the run that the fault hits, NextPlan what the next plan says, NextApply what
	// the next apply does.
	Sees, NextPlan, NextApply string
	// Tests prove it.
	Tests []Test
	// Impossible says why the fault can't come during the operation. All else is empty then.
	Impossible string
}

// Test is a test of this repository.
type Test struct {
	// Package is its folder below internal, Name its function, Sub its subtest or the case in its table, if only one.
	Package, Name, Sub string
}

// Matrix are the cells of all operations.
var Matrix = map[Operation][]Cell{
	Create: create, Update: update, Stop: stop, PreCopy: preCopy, PostCopy: postCopy, ColdMove: coldMove, Drain: drain,
	Restore: restore,
}
