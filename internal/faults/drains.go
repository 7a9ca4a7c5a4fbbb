package faults

// What the guide says of several drains.
const (
	drainWaits = "the apply keeps trying until `timeouts.create`. If the fault lasts longer: error `Unable to " +
		"begin maintenance`, `is cordoned and not drained`, with what was done with each VM"
	drainAgain = "replaces the maintenance (`-/+`), and lists what is left; no VM is moved back"
	drainsRest = "drains the rest"
	drainFails = "error `Unable to begin maintenance` after `timeouts.create`, with what was done with each VM"
	unrecorded = "drains the rest. The end of the maintenance doesn't bring back a VM that left while the host " +
		"couldn't record it: move it back yourself (the error of the drain names it)"
	endFails = "error `Unable to end maintenance`; the maintenance stays in the state"
	endAgain = "destroys the maintenance"
	endsRest = "restores the rest"
)

// Tests of maintenances.
var (
	draining         = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_drain"}
	restoring        = Test{Package: "provider/faultmatrix", Name: "TestAccFaults_restore"}
	drainCut         = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_connectionCut"}
	drainKilled      = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_interrupted"}
	drainAbandoned   = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_killedAndAbandoned"}
	restoreContinues = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_restoreContinues"}
	twoStates        = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_twoStates"}
	drainTwice       = Test{Package: "fleet/drain", Name: "TestLab_secondDrainIsRefusedSoon"}
	startRefused     = Test{Package: "fleet", Name: "TestLab_startAsksForRoom"}
	disksDrained     = Test{Package: "fleet", Name: "TestLab_ownDisksAreDrained"}
)

var drain = []Cell{
	{
		SSHAtSource, drainWaits, drainAgain, drainsRest, []Test{drainCut}, "",
	},
	{SSHAtTarget, drainWaits, drainAgain, drainsRest, []Test{draining.at("SSH cut at the target")}, ""},
	{
		LibvirtdKilled, drainFails,
		drainAgain + ". A VM that was being handed over: warning `Virtual machine is being migrated`",
		unrecorded,
		[]Test{draining.at("libvirtd killed"), draining.at("libvirtd killed at the handover")},
		"",
	},
	{LibvirtdFrozen, drainFails, drainAgain, unrecorded, []Test{draining.at("libvirtd frozen")}, ""},
	{
		QEMUKilled, "while the VM leaves: it is off, and stays; the drain succeeds, and `restore` doesn't start it",
		"no changes, unless Terraform manages the VM with `Always` or `RerunOnFailure`: an update that starts it",
		"nothing; with such a VM, it fails (`HostCordoned`) until the maintenance has ended, then starts it",
		[]Test{draining.at("QEMU killed"), startRefused},
		"",
	},
	{QEMUFrozen, drainFails, drainAgain, drainsRest, []Test{draining.at("QEMU frozen")}, ""},
	{
		ProviderKilled, "Terraform ends; every VM runs on one of the hosts, and the host stays cordoned",
		"a new maintenance, which lists what is left", drainsRest,
		[]Test{drainKilled, drainAbandoned},
		"",
	},
	{
		ProviderFrozen, "the run does nothing; the host stays cordoned", "a new maintenance, which lists what is left",
		"takes over, and drains the rest. The frozen run fails when it continues, and changes nothing",
		[]Test{draining.at("provider frozen")},
		"",
	},
	{LinkCut, drainFails, drainAgain, unrecorded, []Test{draining.at("link cut")}, ""},
	{
		DiskFull, "a storage pool is full: the plan says `NoRoom` for VMs whose disks fit on no other host",
		"the same until there is room",
		"once there is room, drains the host",
		[]Test{disksDrained},
		"",
	},
	{AgentHung, "nothing: the VM is moved, and its agent is still hung", noChanges, nothing, []Test{hungAgent}, ""},
	{
		SecondRun, "the second run's plan warns `Host is under another maintenance`. Its apply fails, within a minute " +
			"if the first run still drains: `... is draining it since ...`. The first run continues",
		"of the first run: no changes", nothing,
		[]Test{twoStates, drainTwice},
		"",
	},
}

var restore = []Cell{
	{SSHAtSource, endFails, endAgain, endsRest, []Test{restoreContinues}, ""},
	{SSHAtTarget, endFails, endAgain, endsRest, []Test{restoring.at("SSH cut at the target")}, ""},
	{LibvirtdKilled, endFails, endAgain, endsRest, []Test{restoring.at("libvirtd killed")}, ""},
	{LibvirtdFrozen, endFails, endAgain, endsRest, []Test{restoring.at("libvirtd frozen")}, ""},
	{
		QEMUKilled, "the VM is off on one of the hosts; the maintenance ends",
		"no changes, unless Terraform manages the VM with `Always` or `RerunOnFailure`: an update that starts it",
		"starts such a VM",
		[]Test{restoring.at("QEMU killed"), power},
		"",
	},
	{QEMUFrozen, endFails, endAgain, endsRest, []Test{restoring.at("QEMU frozen")}, ""},
	{
		ProviderKilled, "Terraform ends; the maintenance stays in the state", endAgain, endsRest,
		[]Test{restoring.at("provider killed")},
		"",
	},
	{
		ProviderFrozen, "the run does nothing", endAgain,
		"takes over, and restores the rest. The frozen run fails when it continues, and changes nothing",
		[]Test{restoring.at("provider frozen")},
		"",
	},
	{LinkCut, endFails, endAgain, endsRest, []Test{restoring.at("link cut")}, ""},
	{DiskFull, endFails, endAgain, endsRest, []Test{restoring.at("disk full")}, ""},
	{AgentHung, "nothing: the VM is moved back, and its agent is still hung", noChanges, nothing, []Test{hungAgent}, ""},
	{
		SecondRun, "both runs succeed: one restores the VMs, and the other waits for it", noChanges, nothing,
		[]Test{restoring.at("second run")},
		"",
	},
}
