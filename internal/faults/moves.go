package faults

// What the guide says of several migrations.
const (
	staysAtSource = "error `Unable to move virtual machine`, `is on host \"...\" (Running)`; the guest continues " +
		"on the source"
	handover  = ". At the handover: as with libvirtd frozen"
	sameMove  = "the same move"
	moves     = "moves the VM"
	movesCold = moves + "; starts a guest that a drain shut down"
	noChanges = "no changes"
	nothing   = "nothing"
	staysOff  = "the move fails; the VM stays off on the source, with its disk. A guest that a drain shut down is " +
		"started again, if possible"
	movesAgain = "the same move; a drain that was moving it lists it again"
	noQEMU     = "a VM that is off has no QEMU"
	inParts    = "error `Unable to move virtual machine`, `each host has a part of its memory`; nothing is removed"
	comesLate  = "all of the memory arrives, and the guest runs on the target. The apply fails at the limit of its " +
		"`timeouts`"
	noMove   = "an update in place, and no move"
	endsMove = "removes what is left at the source; the guest isn't restarted"
)

// Tests of migrations.
var (
	copying       = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_preCopy"}
	postCopying   = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_postCopy"}
	postFrozen    = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_postCopyFrozen"}
	coldMoving    = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_coldMove"}
	neverTwice    = Test{Package: "libvirt", Name: "TestMigrate_neverRunsTwice"}
	moveBreaks    = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_moveBreaks"}
	moveBroken    = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_moveBroken"}
	fullTarget    = Test{Package: "fleet/migration", Name: "TestLab_diskOntoAFullTarget"}
	migrationDies = Test{Package: "provider/migration", Name: "TestAccMigration_fails", Sub: "killed"}
	peersContinue = Test{Package: "provider/virtualmachine", Name: "TestAccVirtualMachine_movePeers"}
	whatBreaks    = Test{Package: "fleet/migration", Name: "TestLab_faultBeforeSwitchoverLeavesTheVMAlone"}
	withoutAQEMU  = Test{Package: "fleet/migration", Name: "TestLab_postCopyDoesNotSurviveAQEMU"}
	withoutSource = Test{Package: "fleet", Name: "TestLab_sourceLostInPostCopy"}
	withoutDaemon = Test{Package: "fleet/migration", Name: "TestLab_postCopySurvivesALibvirtd"}
	secondMove    = Test{Package: "fleet", Name: "TestLab_secondMoveIsRefused"}
	moveOnce      = Test{Package: "fleet", Name: "TestLab_moveIsDoneOnce"}
	coldOnce      = Test{Package: "fleet", Name: "TestLab_coldMoveIsDoneOnce"}
	lostMover     = Test{Package: "fleet", Name: "TestLab_runIsKilledAtTheSwitchover"}
	coldKilled    = Test{Package: "fleet", Name: "TestLab_coldMoveKilledBeforeItNotedAFile"}
	coldRefused   = Test{Package: "fleet", Name: "TestLab_coldMoveIsRefused"}
	resumedLater  = Test{Package: "fleet", Name: "TestLab_brokenMigrationIsResumedLater"}
)

func (t Test) at(sub string) Test {
	t.Sub = sub
	return t
}

var preCopy = []Cell{
	{SSHAtSource, staysAtSource + handover, sameMove, moves, []Test{
		moveBreaks.at("the source's SSH server is gone"), lostMover,
	}, ""},
	{SSHAtTarget, staysAtSource + handover, sameMove, moves, []Test{
		moveBreaks.at("the target's SSH server is gone"), neverTwice,
	}, ""},
	{LibvirtdKilled, staysAtSource + handover, sameMove, moves, []Test{
		whatBreaks.at("the source's libvirtd is killed"), whatBreaks.at("the target's libvirtd is killed"), moveBreaks,
	}, ""},
	{
		LibvirtdFrozen, "error `Unable to move virtual machine`; the guest runs on the source. At the handover, it is " +
			"paused, or on the target: apply soon. It runs on both hosts only in the setups above",
		sameMove, "moves the VM, or lets it continue on the target if it was started there",
		[]Test{
			copying.at("libvirtd frozen"), copying.at("frozen at the handover"), copying.at("source frozen at the handover"),
			neverTwice,
		},
		"",
	},
	{
		QEMUKilled, "error `Unable to move virtual machine`, `is on host \"...\" (Shutoff)`: the VM is off on the source",
		"the same move, and a start (`Always`, `RerunOnFailure`)", "moves the VM, and starts it",
		[]Test{moveBreaks, whatBreaks},
		"",
	},
	{
		QEMUFrozen, "error `Unable to move virtual machine`; the VM stays on the source", sameMove, moves,
		[]Test{copying.at("QEMU frozen")},
		"",
	},
	{
		ProviderKilled, "Terraform ends; libvirt aborts the migration, and the guest continues on the source. At the " +
			"handover, it may be paused until the next apply: apply soon. With `peer_to_peer = true`, the migration continues",
		sameMove + ". With `peer_to_peer`: warning `Virtual machine is being moved already`; no move, if the VM has arrived",
		moves + ", or waits for the migration that continues",
		[]Test{migrationDies, peersContinue, lostMover},
		"",
	},
	{
		ProviderFrozen, "the run does nothing. If all memory has been copied, the guest is paused: apply again to resume it",
		"the same move, with the warning `Unfinished migration is ended first`",
		"lets the guest continue on the source, then moves it. The frozen run changes nothing when it wakes up",
		[]Test{lostMover},
		"",
	},
	{
		LinkCut, staysAtSource + handover, sameMove, moves,
		[]Test{whatBreaks.at("the link is cut"), moveBreaks},
		"",
	},
	{
		DiskFull, "with `copy_storage`: error `Unable to move virtual machine`; the guest continues on the source, " +
			"and the target " +
			"keeps no file", sameMove, moves, []Test{fullTarget}, "",
	},
	{AgentHung, "nothing: the VM is moved, and its agent is still hung", noChanges, nothing, []Test{hungAgent}, ""},
	{
		SecondRun, "the first run moves the VM. The second run waits, and finds it moved; with another target it fails: " +
			"`... is moving it since ...`", noChanges, nothing, []Test{moveOnce, secondMove}, "",
	},
}

var postCopy = []Cell{
	{SSHAtSource, comesLate, noMove, endsMove, []Test{postCopying.at("SSH cut at the source")}, ""},
	{
		SSHAtTarget, inParts + ". All of the memory arrives", noMove, endsMove,
		[]Test{postCopying.at("SSH cut at the target")},
		"",
	},
	{
		LibvirtdKilled, "the apply waits; the guest runs on the target, all of its memory arrives, and the migration " +
			"succeeds",
		noChanges, nothing,
		[]Test{withoutDaemon.at("source"), withoutDaemon.at("target")},
		"",
	},
	{LibvirtdFrozen, comesLate, noMove, endsMove, []Test{postFrozen.at("libvirtd frozen")}, ""},
	{
		QEMUKilled, "error that names what each host has; the guest's memory is lost. With `keep`, nothing is destroyed",
		"warning `Broken migration can't be resumed`",
		"fails and changes nothing. With `on_irrecoverable = \"destroy\"`: destroys what is left and fails; the apply " +
			"after it starts the VM from its disks if `run_strategy` says so",
		[]Test{withoutAQEMU, withoutSource, moveBroken},
		"",
	},
	{
		QEMUFrozen, "the guest waits for memory: " + inParts + ", even with `destroy`", noMove,
		"waits until all of the memory has arrived, and " + endsMove,
		[]Test{postFrozen.at("QEMU frozen")},
		"",
	},
	{
		ProviderKilled, "Terraform ends; the guest runs on the target, and all of the memory arrives. If the hosts lose " +
			"their connection too, the guest pauses. **If the target isn't `running (post-copy)` yet, [the guest's memory is " +
			"lost](peer-to-peer-migrations.md#if-the-provider-is-killed)**, except with `peer_to_peer = true`",
		noMove + "; if the connection is lost too: `Broken migration is resumed`",
		endsMove + "; if the connection is lost too: resumes the migration, with all of its memory",
		[]Test{postFrozen.at("provider killed"), moveBroken},
		"",
	},
	{
		ProviderFrozen, "the run does nothing; all of the memory arrives", noMove,
		"takes the VM over, and " + endsMove + ". The frozen run changes nothing when it continues, and fails if its " +
			"timeout is over",
		[]Test{postFrozen.at("provider frozen")},
		"",
	},
	{
		LinkCut, "the apply tries to resume until `recovery_timeout`, then fails; neither part is destroyed. **With " +
			"`on_irrecoverable = \"destroy\"`, both parts are destroyed then, and the guest's memory is lost**",
		"`Broken migration is resumed`", "resumes the migration",
		[]Test{resumedLater, moveBroken},
		"",
	},
	{Fault: DiskFull, Impossible: "all disks are copied before the switch to post-copy, and memory needs no disk"},
	{
		AgentHung, "nothing: the VM is moved, and its agent is still hung", noChanges, nothing,
		[]Test{postCopying.at("agent hung")},
		"",
	},
	{
		SecondRun, "both runs succeed: one moves the VM, and the other waits and finds it moved", noChanges, nothing,
		[]Test{postCopying.at("second run")},
		"",
	},
}

var coldMove = []Cell{
	{SSHAtSource, staysOff, movesAgain, movesCold, []Test{coldMoving.at("SSH cut at the source")}, ""},
	{SSHAtTarget, staysOff, movesAgain, movesCold, []Test{coldMoving.at("SSH cut at the target")}, ""},
	{LibvirtdKilled, staysOff, movesAgain, movesCold, []Test{coldMoving.at("libvirtd killed")}, ""},
	{LibvirtdFrozen, staysOff, movesAgain, movesCold, []Test{coldMoving.at("libvirtd frozen")}, ""},
	{Fault: QEMUKilled, Impossible: noQEMU},
	{Fault: QEMUFrozen, Impossible: noQEMU},
	{
		ProviderKilled, "Terraform ends; the VM stays off on the source, and the target has an unfinished copy", sameMove,
		"removes the unfinished copy, and " + movesCold,
		[]Test{coldMoving.at("provider killed"), coldKilled},
		"",
	},
	{
		ProviderFrozen, "the run does nothing", sameMove,
		"takes the VM over, removes the unfinished copy, and moves the VM. The frozen run fails when it continues, and " +
			"changes nothing",
		[]Test{coldMoving.at("provider frozen")},
		"",
	},
	{LinkCut, staysOff, movesAgain, movesCold, []Test{
		coldMoving.at("link cut"), coldMoving.at("link cut during a drain"),
	}, ""},
	{
		DiskFull, "before the copy: blocker `InsufficientStorage`. During the copy: `No space left on device`; the " +
			"target keeps no file, " +
			"and the VM stays off on the source", sameMove, moves, []Test{coldRefused}, "",
	},
	{Fault: AgentHung, Impossible: "a VM that is off has no agent"},
	{
		SecondRun, "one run moves the VM, and the other finds it moved; with another target, it fails", noChanges, nothing,
		[]Test{coldOnce},
		"",
	},
}
