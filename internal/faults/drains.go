package faults

// What the guide says of several drains.
const (
	drainWaits = "the apply keeps trying until `timeouts.create`. If the fault lasts longer: error `Unable to " +
		"begin maintenance`, " +
		"`is cordoned and not drained`, with what was done"
	drainAgain = "replaces the maintenance, and lists what is left; nothing is moved back"
	drainsRest = "drains the rest"
	endFails   = "error `Unable to end maintenance`; the maintenance stays in the state"
	endAgain   = "destroys the maintenance"
	endsRest   = "restores the rest, and opens the host"
)

// Tests of maintenances.
var (
	drainCut      = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_connectionCut"}
	drainKilled   = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_interrupted"}
	drainGivenUp  = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_killedAndGivenUp"}
	restoreGoesOn = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_restoreGoesOn"}
	twoStates     = Test{Package: "provider/hostmaintenance", Name: "TestAccHostMaintenance_twoStates"}
	drainTwice    = Test{Package: "fleet/drain", Name: "TestLab_secondDrainIsRefusedSoon"}
	targetDies    = Test{Package: "fleet/drain", Name: "TestLab_drainTargetDies"}
	disksDrained  = Test{Package: "fleet", Name: "TestLab_ownDisksAreDrained"}
)

var drain = []Cell{
	{
		SSHAtSource, drainWaits, drainAgain, drainsRest, []Test{drainCut}, "",
	},
	{SSHAtTarget, drainWaits, drainAgain, drainsRest, []Test{targetDies}, ""},
	{Fault: LibvirtdKilled},
	{Fault: LibvirtdFrozen},
	{Fault: QEMUKilled},
	{Fault: QEMUFrozen},
	{
		ProviderKilled, "Terraform ends; every VM runs on one of the hosts, and the host stays cordoned",
		"a new maintenance, which lists what is left", drainsRest,
		[]Test{drainKilled, drainGivenUp},
		"",
	},
	{Fault: ProviderFrozen},
	{Fault: LinkCut},
	{
		DiskFull, "the plan says `NoRoom` for VMs whose disks don't fit on the target", "the same until there is room",
		"once there is room, drains the host",
		[]Test{disksDrained},
		"",
	},
	{Fault: AgentHung},
	{
		SecondRun, "the second run's plan warns `Host is under another maintenance`, and its apply fails, within a " +
			"minute while the first run drains: `... is draining it since ...`. The first run's drain isn't affected",
		noChanges, nothing,
		[]Test{twoStates, drainTwice},
		"",
	},
}

var restore = []Cell{
	{SSHAtSource, endFails, endAgain, endsRest, []Test{restoreGoesOn}, ""},
	{Fault: SSHAtTarget},
	{Fault: LibvirtdKilled},
	{Fault: LibvirtdFrozen},
	{Fault: QEMUKilled},
	{Fault: QEMUFrozen},
	{Fault: ProviderKilled},
	{Fault: ProviderFrozen},
	{Fault: LinkCut},
	{Fault: DiskFull},
	{Fault: AgentHung},
	{Fault: SecondRun},
}
