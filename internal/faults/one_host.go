package faults

// What the guide says of several operations on one host.
const (
	becomesReady = "an update: `ready = false -> true`; the VM isn't tainted"
	waits        = "the second run waits for the first one; after its timeout it fails: `... is updating it since ...`"
	begun        = "error `Unable to create virtual machine`; the VM may be defined, and isn't in the state"
	creates      = "the VM is created"
	completes    = "completes the VM that was begun"
	half         = "error `Unable to update virtual machine`; the definition may have the change already"
	lacks        = "an update. If the definition has the change: warning `Running virtual machine lacks changes`"
	makes        = "makes the change, without a restart"
	stillRuns    = "error `Unable to update virtual machine`; the guest was asked to shut down, and may still run"
	sameStop     = "the same stop"
	stops        = "stops the VM"
	noSpace      = "`/etc/libvirt` is full: error `No space left on device`"
)

// Tests of operations on one host.
var (
	creating       = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_create"}
	updating       = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_update"}
	hungAgent      = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_agentHung"}
	stopping       = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_stop"}
	silentHost     = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_hostStopsAnswering"}
	silentElse     = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_silentHostMayRunIt"}
	killedInCreate = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_killedInCreate"}
	killedWaiting  = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_killedWhileWaiting"}
	notReady       = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_notReady"}
	locked         = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_locked"}
	createdTwice   = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_createdTwiceAtOnce"}
	power          = Test{Package: "provider/virtualmachine", Name: "TestAccPower_drift", Sub: "always_crashed"}
	frozenRun      = Test{Package: "fleet", Name: "TestLab_frozenRunDestroysNothingWhenResumed"}
)

var create = []Cell{
	{SSHAtSource, begun, creates, completes, []Test{creating}, ""},
	{
		SSHAtTarget, "warning `Name not checked on every host`; a host that answers gets the VM. Without " +
			"`on_unreachable = \"keep\"`, the plan fails if the cut host has resources of this state",
		noChanges, nothing,
		[]Test{silentHost},
		"",
	},
	{LibvirtdKilled, begun, creates, completes, []Test{creating}, ""},
	{LibvirtdFrozen, begun, creates, completes, []Test{creating}, ""},
	{
		QEMUKilled, "killed once the VM runs: status `Failed` (`Crashed`)", "with `Always` or `RerunOnFailure`: an " +
			"update that starts it", "starts it", []Test{power}, "",
	},
	{
		QEMUFrozen, "frozen once the VM runs: nothing. Frozen while it starts: after `timeouts.create`, warning " +
			"`Unable to complete virtual machine`, or error `Unable to create ...`",
		"no changes; after the error: the VM is created", "nothing, or completes it",
		[]Test{creating},
		"",
	},
	{
		ProviderKilled, "Terraform ends. The VM is defined or runs, and isn't in the state", "the VM is created",
		"completes it",
		[]Test{killedInCreate, killedWaiting},
		"",
	},
	{
		ProviderFrozen, "the run does nothing", creates,
		"completes the VM that was begun. The frozen run fails when it continues, and changes nothing",
		[]Test{creating},
		"",
	},
	{LinkCut, begun, creates, completes, []Test{creating}, ""},
	{DiskFull, noSpace, creates, "creates it", []Test{creating}, ""},
	{
		AgentHung, "nothing. If it doesn't connect: warning `Unable to wait for virtual machine`",
		"no changes. If it didn't connect: " + becomesReady,
		"nothing; or waits again, and fails if it still isn't ready",
		[]Test{notReady, hungAgent},
		"",
	},
	{
		SecondRun, "the first run creates the VM; the second fails: `exists already on host ...`, with the import command",
		"of the first run: no changes", nothing,
		[]Test{createdTwice},
		"",
	},
}

var update = []Cell{
	{
		SSHAtSource, half + ". Cut before the plan: the plan fails", lacks, makes,
		[]Test{updating, silentHost},
		"",
	},
	{
		SSHAtTarget, "nothing: the VM's own host answers, and the VM is updated", noChanges, nothing,
		[]Test{silentElse},
		"",
	},
	{LibvirtdKilled, half, lacks, makes, []Test{updating}, ""},
	{LibvirtdFrozen, half, lacks, makes, []Test{updating}, ""},
	{
		QEMUKilled, "error `domain is not running`; with `Always`, this apply may start the VM again, with the change",
		"with `Always`, if that apply didn't start the VM: an update that starts it", "starts the VM, with the change",
		[]Test{updating},
		"",
	},
	{
		QEMUFrozen, "error: the limit of `timeouts.update` was reached", "no changes: QEMU made the change when it continued",
		nothing,
		[]Test{updating},
		"",
	},
	{
		ProviderKilled, "Terraform ends; the definition may have the change already", lacks, makes,
		[]Test{updating},
		"",
	},
	{
		ProviderFrozen, "the run does nothing", lacks,
		"takes the VM over, and makes the change. The frozen run fails when it continues, and changes nothing",
		[]Test{updating},
		"",
	},
	{LinkCut, half, lacks, makes, []Test{updating}, ""},
	{DiskFull, noSpace + "; nothing is changed", "the same update", "makes it", []Test{updating}, ""},
	{
		AgentHung, "nothing: `wait_for.guest_agent` waits only until the agent is connected", noChanges, nothing,
		[]Test{hungAgent},
		"",
	},
	{SecondRun, waits, "the second run's changes", "waits until the first run ends, then makes " +
		"these changes", []Test{locked}, ""},
}

var stop = []Cell{
	{SSHAtSource, stillRuns, sameStop, stops, []Test{stopping}, ""},
	{SSHAtTarget, "nothing: the VM is stopped", noChanges, nothing, []Test{stopping}, ""},
	{LibvirtdKilled, stillRuns, sameStop, stops, []Test{stopping}, ""},
	{LibvirtdFrozen, stillRuns, sameStop, stops, []Test{stopping}, ""},
	{
		QEMUKilled, "the VM is off. If it is `Failed`, error `is not as planned`",
		noChanges, nothing,
		[]Test{stopping},
		"",
	},
	{
		QEMUFrozen, "the VM is forced off after its grace period: warning `Virtual machine was forced off`", noChanges,
		nothing,
		[]Test{stopping},
		"",
	},
	{
		ProviderKilled, "Terraform ends; a guest that doesn't react continues to run", "the same stop", "stops the VM",
		[]Test{killedWaiting},
		"",
	},
	{
		ProviderFrozen, "the run does nothing", "if the VM still runs: the same stop",
		"takes the VM over. The frozen run forces nothing off when it wakes up",
		[]Test{frozenRun},
		"",
	},
	{LinkCut, stillRuns, sameStop, stops, []Test{stopping}, ""},
	{DiskFull, "the VM may be off; " + noSpace, "the same update", "completes it", []Test{stopping}, ""},
	{AgentHung, "the guest is asked through ACPI, and shuts down", noChanges, nothing, []Test{hungAgent}, ""},
	{SecondRun, waits, "the second run's changes", "waits until the first run ends, then makes " +
		"these changes", []Test{locked}, ""},
}
