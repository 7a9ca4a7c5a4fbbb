package migration

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// VM is the VM that is to move, as it is at its source.
type VM struct {
	UUID, Name string
	State      libvirt.DomainState
	// Reason is the reason of the domain's state, as libvirt names it.
	Reason string
	// Transient says whether the VM has no definition, and is to have none on the target.
	Transient bool
	// ManagedSave says whether the stopped VM's memory is saved on its host.
	ManagedSave bool
	// Snapshots is the number of snapshots, BlockJobs are the disks that are being copied.
	Snapshots int
	BlockJobs []string
	// Job is the job that runs on the VM, such as Backup. "" means none.
	Job string
	// Session says whether the VM belongs to a user's daemon, which keeps files in other places than the system's
	// daemon.
	Session bool
	// TargetFiles says of files that QEMU opens at its start whether the target has them. A file of which that is unknown
	// isn't in it. It is nil where that isn't asked. Checks call it while others run.
	TargetFiles func() map[string]bool
	// SourceFiles says of files whether the source has them. A file of which that is unknown isn't in the result. It is
	// nil where that isn't asked.
	SourceFiles func(ctx context.Context, files []string) map[string]bool
	// PoolAt returns the name of the active storage pool whose directory this is on the source or the target, "" for none.
	// It is nil where that isn't asked.
	PoolAt func(ctx context.Context, onTarget bool, dir string) string
	// TargetBridges says which network devices the target has. If it is nil, the target itself is asked each time.
	TargetBridges BridgeExists
	// Networks returns the networks of the source or the target: recent ones, or those that it has now. If it is nil, the
	// host itself is asked each time.
	Networks func(ctx context.Context, onTarget, now bool) ([]libvirt.Network, error)
	// Unfinished are the files on the target that an earlier attempt to move the VM left. They are removed before
	// another attempt.
	Unfinished []domain.Copy
	// BaseImages are the files of images that are copied to the target before the VM moves, and their sizes.
	BaseImages map[string]uint64
	// BlockedReasons are QEMU's reasons not to migrate the VM (blocked-reasons of query-migrate). BlockedReasonsError
	// is why they are unknown although QEMU was asked. Both are empty before AskQEMU.
	BlockedReasons      []string
	BlockedReasonsError error
	// Mobility has the facts of the definition: for a running VM the definition that would be sent, otherwise the
	// persistent one.
	Mobility domain.Mobility
	// ChainsKnown says whether the Backing of the disks is complete, even if the VM is off.
	ChainsKnown bool
}

// BridgeExists says whether a host has a network device of that name, as libvirt.Host.BridgeExists does.
type BridgeExists func(ctx context.Context, name string) (exists, known bool, err error)

// onTarget says whether the target has a file of OpenedFiles, and whether that is known.
func (vm VM) onTarget(file string) (has, known bool) {
	if vm.TargetFiles == nil || file == "" {
		return false, false
	}
	has, known = vm.TargetFiles()[file]
	return has, known
}

// bridgesOf returns what says which network devices the target has.
func (vm VM) bridgesOf(target *libvirt.Host) BridgeExists {
	if vm.TargetBridges != nil {
		return vm.TargetBridges
	}
	return target.BridgeExists
}

// Live says whether the guest is moved while it runs.
func (vm VM) Live() bool { return vm.State.Active() }

// TurnedOff returns the running VM as it will be when it is off, with the facts of its persistent definition. The
// backing chains of its disks are known from the running domain.
func (vm VM) TurnedOff(facts domain.Mobility) VM {
	for i, disk := range facts.Disks {
		same := slices.IndexFunc(vm.Mobility.Disks, func(d domain.MobileDisk) bool { return d.Path == disk.Path })
		if same >= 0 {
			facts.Disks[i].Backing = vm.Mobility.Disks[same].Backing
		}
	}
	vm.State, vm.Reason, vm.Mobility, vm.ChainsKnown = libvirt.Shutoff, "Shutdown", facts, true
	vm.BlockedReasons, vm.BlockedReasonsError = nil, nil
	return vm
}

// OpenedFiles returns what of its host, other than disks, QEMU needs when it starts: files that it opens, directories
// that it shares, devices by their path, and block devices for which it has limits.
func (vm VM) OpenedFiles() []string {
	handed := domain.ParseTexts(vm.Mobility.Values[fwCfgFiles])
	files := slices.Concat(vm.Mobility.Files, slices.Collect(maps.Values(handed)),
		[]string{vm.Mobility.Ignition, vm.Mobility.Loader}, vm.limitedDevices())
	for _, fs := range vm.Mobility.Filesystems {
		files = append(files, fs.Source)
	}
	for _, device := range vm.Mobility.Devices {
		files = append(files, device.Path)
	}
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(file string) bool { return file == "" })
}

// limitedDevices returns the block devices of the host for which the VM has limits.
func (vm VM) limitedDevices() []string {
	return slices.Sorted(maps.Keys(domain.ParseTable(vm.Mobility.Values[domain.BlkioDevices])))
}

// leftByEarlierAttempt says whether an earlier attempt left the file on the target.
func (vm VM) leftByEarlierAttempt(path string, there libvirt.Volume) bool {
	return slices.ContainsFunc(vm.Unfinished, func(c domain.Copy) bool {
		return c.Path == path && (!c.Creating || madeEmpty(c, there))
	})
}

// Inspect reads everything about a VM that decides whether it can be moved, at once. runs says whether the VM ran when
// it was read last. If that is no longer so, Inspect asks for what a running VM has in addition, or ignores it.
func Inspect(ctx context.Context, source *libvirt.Host, uuid string, runs bool) (VM, error) {
	vm := VM{UUID: uuid}
	var d *libvirt.Domain
	var migratable string
	var always, running errgroup.Group
	askRunning := func() {
		running.Go(func() (err error) {
			migratable, err = source.MigratableXML(ctx, uuid)
			return err
		})
		running.Go(func() error {
			jobs, err := source.BlockJobs(ctx, uuid)
			for _, job := range jobs {
				vm.BlockJobs = append(vm.BlockJobs, job.Target)
			}
			return unlessUnsupported(err)
		})
		running.Go(func() error {
			job, err := source.Job(ctx, uuid)
			if job != nil && job.Type.Active() {
				vm.Job = job.Operation
			}
			return unlessUnsupported(err)
		})
	}
	if runs {
		askRunning()
	}
	always.Go(func() (err error) {
		d, err = source.Domain(ctx, uuid)
		return err
	})
	always.Go(func() error {
		snapshots, err := source.Snapshots(ctx, uuid)
		vm.Snapshots = len(snapshots)
		return unlessUnsupported(err)
	})
	always.Go(func() error {
		info, err := source.Info(ctx)
		if err == nil {
			at, parseErr := url.Parse(info.URI)
			vm.Session = parseErr == nil && at.Path == "/session"
		}
		return err
	})
	err := always.Wait()
	if err == nil && d.Active() && !runs {
		askRunning()
	}
	runningErr := running.Wait()
	if err != nil {
		return VM{}, err
	}
	vm.Name, vm.State, vm.Reason, vm.Transient = d.Name, d.State, d.Reason, !d.Persistent
	vm.ManagedSave = d.ManagedSave
	xml := migratable
	switch {
	case !vm.Live():
		xml, vm.BlockJobs, vm.Job = d.PersistentXML, nil, ""
	case runningErr != nil:
		return VM{}, runningErr
	}
	definition, err := domain.Parse(xml)
	if err != nil {
		return VM{}, err
	}
	vm.Mobility = definition.Mobility()
	return vm, readLive(&vm.Mobility, d.LiveXML)
}

// readLive reads what only the live definition has, and not the one that libvirt sends to the target: the backing
// chains that libvirt found in the images themselves, and which interfaces have settings from their networks.
func readLive(m *domain.Mobility, live string) error {
	if live == "" {
		return nil
	}
	definition, err := domain.Parse(live)
	if err != nil {
		return err
	}
	runs := definition.Mobility()
	chains := map[string][]domain.BackingImage{}
	for _, disk := range runs.Disks {
		chains[disk.Target] = disk.Backing
	}
	for i := range m.Disks {
		m.Disks[i].Backing = chains[m.Disks[i].Target]
	}
	for i := range m.Interfaces { // Both definitions have them in the same order.
		m.Interfaces[i].Given = len(runs.Interfaces) == len(m.Interfaces) &&
			runs.Interfaces[i].Shaped && !m.Interfaces[i].Shaped
	}
	return nil
}

// AskQEMU returns the VM with QEMU's reasons not to migrate it. The question taints the domain until it leaves its
// host, so it is meant for a migration that is about to start and for a user who requests it, not for a plan. If QEMU
// can't be asked, that is a doubt and no error: libvirt asks QEMU too before it changes anything.
func (vm VM) AskQEMU(ctx context.Context, source *libvirt.Host) VM {
	if !vm.Live() {
		return vm
	}
	vm.BlockedReasons, vm.BlockedReasonsError = source.MigrationBlockers(ctx, vm.UUID)
	vm.BlockedReasonsError = unlessUnsupported(vm.BlockedReasonsError)
	return vm
}

// unlessUnsupported returns the error, or nil if the error means that the host's libvirt doesn't support the call or
// that the call is invalid for this domain: then the feature isn't in use there.
func unlessUnsupported(err error) error {
	if errors.Is(err, libvirt.ErrUnsupported) || errors.Is(err, libvirt.ErrOperationInvalid) {
		return nil
	}
	return err
}

// describeStorage returns the kind of a disk's storage.
func describeStorage(disk domain.MobileDisk) string {
	switch {
	case disk.Other != "":
		return "storage of type " + strings.SplitN(disk.Other, ":", 2)[0]
	case disk.Block:
		return "block device " + disk.Path
	default:
		return "file " + disk.Path
	}
}
