package faults

// What the guide says of several operations on one host.
const (
	becomesReady = "an update: `ready = false -> true`; the VM isn't tainted"
	waits        = "the second run waits for the first one; after its timeout it fails: `... is updating it since ...`"
)

// Tests of operations on one host.
var (
	silentHost     = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_hostStopsAnswering"}
	silentElse     = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_silentHostMayRunIt"}
	killedInCreate = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_killedInCreate"}
	killedWaiting  = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_killedWhileWaiting"}
	notReady       = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_notReady"}
	locked         = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_locked"}
	createdTwice   = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_createdTwiceAtOnce"}
	power          = Test{Package: "provider/virtualmachine", Name: "TestAccPower_drift", Sub: "always_crashed"}
	frozenRun      = Test{Package: "fleet", Name: "TestLab_frozenRunDestroysNothingOnWaking"}
)

var create = []Cell{
	{Fault: SSHAtSource},
	{
		SSHAtTarget, "with `on_unreachable = \"keep\"`: warning `Name not checked on every host`; the VM is created " +
			"on a host that " +
			"answers", noChanges, nothing, []Test{silentHost}, "",
	},
	{Fault: LibvirtdKilled},
	{Fault: LibvirtdFrozen},
	{
		QEMUKilled, "killed once the VM runs: status `Failed` (`Crashed`)", "with `Always` and `RerunOnFailure`: an " +
			"update that starts " +
			"the VM", "starts it", []Test{power}, "",
	},
	{Fault: QEMUFrozen},
	{
		ProviderKilled, "Terraform ends. The VM is defined or runs, and isn't in the state", "the VM is created",
		"adopts the VM that was begun, and completes it",
		[]Test{killedInCreate, killedWaiting},
		"",
	},
	{Fault: ProviderFrozen},
	{Fault: LinkCut},
	{Fault: DiskFull},
	{
		AgentHung, "an agent that never answers: warning `Unable to wait for virtual machine`; the VM runs", becomesReady,
		"waits again, and fails if it still isn't ready; the VM continues to run",
		[]Test{notReady},
		"",
	},
	{
		SecondRun, "the first run creates the VM; the second fails: `exists already on host ...`, with the import command",
		noChanges, nothing,
		[]Test{createdTwice},
		"",
	},
}

var update = []Cell{
	{
		SSHAtSource, "cut before the plan: error `does not answer`; nothing is changed, and the VM stays in the " +
			"state", "as if nothing had happened",
		"what the plan says",
		[]Test{silentHost},
		"",
	},
	{SSHAtTarget, "nothing: a VM that runs is updated, even restarted", noChanges, nothing, []Test{silentElse}, ""},
	{Fault: LibvirtdKilled},
	{Fault: LibvirtdFrozen},
	{Fault: QEMUKilled},
	{Fault: QEMUFrozen},
	{Fault: ProviderKilled},
	{Fault: ProviderFrozen},
	{Fault: LinkCut},
	{Fault: DiskFull},
	{Fault: AgentHung},
	{SecondRun, waits, "the second run's changes", "waits for the first run if it still works, and makes " +
		"them", []Test{locked}, ""},
}

var stop = []Cell{
	{Fault: SSHAtSource},
	{Fault: SSHAtTarget},
	{Fault: LibvirtdKilled},
	{Fault: LibvirtdFrozen},
	{Fault: QEMUKilled},
	{Fault: QEMUFrozen},
	{
		ProviderKilled, "Terraform ends; a guest that doesn't react continues to run", "the same stop", "stops the VM",
		[]Test{killedWaiting},
		"",
	},
	{
		ProviderFrozen, "the run does nothing", "what the configuration says of a VM that still runs",
		"takes the VM over. The frozen run forces nothing off when it wakes up",
		[]Test{frozenRun},
		"",
	},
	{Fault: LinkCut},
	{Fault: DiskFull},
	{Fault: AgentHung},
	{SecondRun, waits, "the second run's changes", "waits for the first run if it still works, and makes " +
		"them", []Test{locked}, ""},
}
