package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	guestagent "github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// observing is one observation in progress. Each question writes only its own field, and notes in lack what it could
// not learn.
type observing struct {
	observer *Observer
	vm       *inventory.VM
	question Question

	report     *guestagent.Report
	leases     []status.Lease
	arp        []status.Lease
	job        *libvirt.Job
	blockers   []migration.Blocker
	diskErrors map[string]libvirt.DiskError
	disks      map[string]libvirt.BlockInfo
	images     map[string]status.Disk
	rule       *evacuation.Rule
	resumer    status.Fact[string]
	log        *inventory.QEMULog
	doubles    []status.Double
	cutOff     []status.CutOff

	mu   sync.Mutex
	lack map[string]string
}

// lacks notes why a part is unknown.
func (o *observing) lacks(part, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.lack == nil {
		o.lack = make(map[string]string)
	}

	o.lack[part] = why
}

// failed notes an error. That the time was over says what didn't answer in it: a QEMU or a host that hangs.
func (o *observing) failed(part string, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		o.lacks(part, fmt.Sprintf("no answer within %s", observeTimeout))

		return
	}

	o.lacks(part, inventory.PlainCause(err))
}

// ask asks all layers at the same time.
func (o *observing) ask(ctx context.Context) {
	questions := []func(context.Context){
		o.askAgent, o.askJob, o.askResumer, o.askBlockers, o.askDisks, o.askDiskErrors, o.askRule, o.askLog,
		o.findDoubles,
		o.askPorts,
		func(ctx context.Context) { o.leases = o.askAddresses(ctx, PartLease, libvirt.SourceLease) },
		func(ctx context.Context) { o.arp = o.askAddresses(ctx, PartARP, libvirt.SourceARP) },
	}

	var all sync.WaitGroup
	for _, question := range questions {
		all.Go(func() { question(ctx) })
	}

	all.Wait()
}

func (o *observing) askAgent(ctx context.Context) {
	report, err := o.observer.GuestInfo(ctx, o.vm, guestagent.Options{
		RawCommands: o.question.RawCommands,
		Only: []guestagent.Group{
			guestagent.GroupOS, guestagent.GroupHostname, guestagent.GroupTimezone, guestagent.GroupInterfaces,
			guestagent.GroupUsers, guestagent.GroupFilesystems, guestagent.GroupAgent,
		},
	})
	if err != nil {
		report = guestagent.Silent(guestagent.TimedOut, err.Error())
	}

	o.report = report
	if gap, silent := report.Unavailable[guestagent.GroupInterfaces]; silent && !report.AgentConnected {
		o.lacks(PartAgent, gap.String())
	}
}

// askAddresses asks a source outside the guest for the guest's addresses.
func (o *observing) askAddresses(ctx context.Context, part string, source libvirt.AddressSource) []status.Lease {
	if !o.vm.Active || o.vm.LiveSpec == nil || len(o.vm.LiveSpec.Interfaces) == 0 {
		return nil
	}

	found, err := o.vm.On.Conn.InterfaceAddresses(ctx, o.vm.UUID, source)
	if err != nil {
		o.failed(part, err)

		return nil
	}

	return leases(found)
}

func (o *observing) askLog(ctx context.Context) {
	log, err := o.vm.On.ReadQEMULog(ctx, o.vm.Name)
	if err != nil {
		o.failed(PartQEMULog, err)

		return
	}

	o.log = &log
}

// findDoubles looks for other copies of the VM in what the hosts have reported last: the question about the VM itself
// finds only its own UUID. If that can't be read, the hosts that don't answer are named anyway.
func (o *observing) findDoubles(ctx context.Context) {
	answers, err := o.observer.hosts.SnapshotOfAnswering(ctx)
	if err == nil {
		o.doubles = o.vm.Doubles(answers)
	}
}

// askResumer finds out whether a run manages a migration that broke in post-copy: such a run holds the VM's lock on its
// host. A lock that a killed run left can't be told from one that is held.
func (o *observing) askResumer(ctx context.Context) {
	if !o.vm.BrokeInPostCopy() {
		return
	}

	if o.vm.OpenMigration() == nil {
		o.resumer = status.Seen("another tool began it")

		return
	}

	held, err := lease.Current(ctx, o.vm.On.Conn, o.vm.UUID)

	switch {
	case err != nil:
		o.resumer = status.Unseen[string](inventory.PlainCause(err))
	case held == nil:
		o.resumer = status.Seen("")
	default:
		o.resumer = status.Seen(lease.Holder(*held) + "; if that run was killed, the next run resumes it")
	}
}

func (o *observing) askJob(ctx context.Context) {
	job, err := o.observer.Job(ctx, o.vm)
	if err != nil {
		o.failed(PartJob, err)

		return
	}

	o.job = job
}

// Job returns the job of a VM, nil for none. For a migration it asks the source.
func (ob *Observer) Job(ctx context.Context, vm *inventory.VM) (*libvirt.Job, error) {
	h := ob.hosts.Host(vm.JobHost())
	if !vm.Active || vm.ActiveHosts[h.Name] == status.RoleTarget {
		return nil, nil
	}

	return h.Conn.Job(ctx, vm.UUID)
}

// askBlockers finds what blocks moving the VM. It asks nothing, and notes why, for a VM that is being moved, that broke
// in post-copy, or that is already on the target.
func (o *observing) askBlockers(ctx context.Context) {
	if why := o.immovable(); why != "" {
		o.lacks(PartBlockers, why)

		return
	}

	inspected, err := move.Inspect(ctx, o.vm)
	if err != nil {
		o.failed(PartBlockers, err)

		return
	}

	if inspected.Job == libvirt.OperationMigrationOut {
		o.lacks(PartBlockers, beingMoved)

		return
	}

	if o.question.RawCommands {
		inspected = inspected.AskQEMU(ctx, o.vm.On.Conn)
	}

	targets := o.targets()

	found, err := o.blockersOf(ctx, inspected, targets)
	if err != nil {
		o.failed(PartBlockers, err)

		return
	}

	o.blockers = leastBlocked(found)

	if len(targets) == 0 {
		o.blockers = append(migration.DomainBlockers(inspected), migration.Blocker{
			Reason: migration.HostNotAvailable, Status: status.False, Attribute: "host",
			Message: "no other host of the fleet accepts the VM", Remedy: "Add another host to hosts.",
		})
	}
}

// beingMoved is why nothing is known about the next move of a VM.
const beingMoved = "it is being moved now"

// immovable returns why the VM can't be asked about its moves, "" if it can.
func (o *observing) immovable() string {
	switch {
	case o.vm.BrokeInPostCopy():
		return o.vm.StateFacts().PostCopyReport()
	case o.vm.Migrating:
		return beingMoved
	case o.question.Target == o.vm.Host:
		return "it is on that host already"
	default:
		return ""
	}
}

// blockersOf returns what blocks moving the VM to each of the targets.
func (o *observing) blockersOf(
	ctx context.Context, inspected migration.VM, targets []*inventory.Host,
) ([][]migration.Blocker, error) {
	effective, err := o.observer.records.MigrationOptionsOf(ctx, o.vm, migration.Options{})
	if err != nil {
		return nil, err
	}

	check := o.observer.moveChecks.CheckCandidate
	if o.question.Target != "" {
		check = o.observer.moveChecks.CheckTarget
	}

	found := make([][]migration.Blocker, len(targets))
	errs := make([]error, len(targets))

	var all sync.WaitGroup
	for i, to := range targets {
		all.Go(func() {
			found[i], errs[i] = check(ctx, o.vm, inspected, to, effective.Options)
		})
	}

	all.Wait()

	return found, errors.Join(errs...)
}

// targets returns the hosts that the VM might be moved to.
func (o *observing) targets() []*inventory.Host {
	return slices.DeleteFunc(slices.Clone(o.observer.hosts.Configured), func(h *inventory.Host) bool {
		if o.question.Target != "" {
			return h.Name != o.question.Target || h.Config.Fenced
		}

		return h == o.vm.On || h.Config.Fenced || h.Config.Unschedulable
	})
}

// leastBlocked returns what blocks moving to the host that fits best. If every host has a certain blocker, it returns
// all blockers of all hosts.
func leastBlocked(found [][]migration.Blocker) []migration.Blocker {
	blocked := make([]migration.Blocker, 0)
	best := -1

	for i, blockers := range found {
		if len(migration.Blocking(blockers)) > 0 {
			blocked = append(blocked, blockers...)

			continue
		}

		if best < 0 || len(blockers) < len(found[best]) {
			best = i
		}
	}

	if best >= 0 {
		return append([]migration.Blocker{}, found[best]...)
	}

	seen := make(map[migration.Blocker]bool)

	return slices.DeleteFunc(blocked, func(b migration.Blocker) bool {
		again := seen[b]
		seen[b] = true

		return again
	})
}

// onTarget says whether the VM is only arriving at the host: QEMU there does not answer yet, and libvirt would wait for
// it.
func (o *observing) onTarget() bool { return o.vm.ActiveHosts[o.vm.Host] == status.RoleTarget }

// askRule reads the eviction policies that are recorded on the hosts that answer.
func (o *observing) askRule(ctx context.Context) {
	hosts := slices.DeleteFunc(slices.Clone(o.observer.hosts.Configured), func(h *inventory.Host) bool {
		return h.Config.Fenced || slices.Contains(o.vm.SilentHosts, h.Name)
	})

	recordings := records.Recordings(hosts, func(h *inventory.Host) (*hostrecord.Record, error) {
		record, _, err := inventory.ReadRecord(ctx, h)

		return record, err
	})

	rule, err := o.observer.records.Rule(o.vm, recordings)
	if err != nil {
		o.failed(PartPolicies, err)

		return
	}

	o.rule = rule
}

// GuestInfo asks the guest agent of a VM, unless it is already known that no agent answers.
func (ob *Observer) GuestInfo(ctx context.Context, vm *inventory.VM, o guestagent.Options) (*guestagent.Report, error) {
	facts := vm.Facts()

	switch {
	case !facts.GuestRuns():
		return guestagent.Silent(guestagent.NotRunning,
			fmt.Sprintf("the virtual machine is %s (%s)", vm.Status(), vm.StatusReason())), nil
	case !facts.AgentChannel:
		return guestagent.Silent(guestagent.Absent, "the virtual machine has no channel for a guest agent"), nil
	}

	o.ChannelClosed = !vm.AgentConnected

	return guestagent.Info(ctx, vm.On.Conn, vm.UUID, o)
}
