package migration

import (
	"context"
	"errors"
	"fmt"
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
	// isn't in it.
	TargetFiles map[string]bool
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

// OpenedFiles returns the files of its host, other than disks, that QEMU opens when it starts.
func (vm VM) OpenedFiles() []string {
	handed := domain.ParseTexts(vm.Mobility.Values[fwCfgFiles])
	files := slices.Concat(vm.Mobility.Files, slices.Collect(maps.Values(handed)),
		[]string{vm.Mobility.Ignition, vm.Mobility.Loader})
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(file string) bool { return file == "" })
}

// leftByEarlierAttempt says whether an earlier attempt left the file on the target.
func (vm VM) leftByEarlierAttempt(path string, there libvirt.Volume) bool {
	return slices.ContainsFunc(vm.Unfinished, func(c domain.Copy) bool {
		return c.Path == path && (!c.Creating || madeEmpty(c, there))
	})
}

// Inspect reads everything about a VM that decides whether it can be moved.
func Inspect(ctx context.Context, source *libvirt.Host, uuid string) (VM, error) {
	d, err := source.Domain(ctx, uuid)
	if err != nil {
		return VM{}, err
	}
	vm := VM{
		UUID: uuid, Name: d.Name, State: d.State, Reason: d.Reason, Transient: !d.Persistent, ManagedSave: d.ManagedSave,
	}
	live := vm.Live()
	var xml string
	var calls errgroup.Group
	calls.Go(func() error {
		snapshots, err := source.Snapshots(ctx, uuid)
		vm.Snapshots = len(snapshots)
		return unlessUnsupported(err)
	})
	if live {
		calls.Go(func() (err error) {
			xml, err = source.MigratableXML(ctx, uuid)
			return err
		})
		calls.Go(func() (err error) {
			vm.BlockJobs, err = source.BlockJobs(ctx, uuid)
			return unlessUnsupported(err)
		})
		calls.Go(func() error {
			job, err := source.Job(ctx, uuid)
			if job != nil && job.Type.Active() {
				vm.Job = job.Operation
			}
			return unlessUnsupported(err)
		})
	} else {
		xml = d.PersistentXML
	}
	calls.Go(func() error {
		info, err := source.Info(ctx)
		if err == nil {
			at, parseErr := url.Parse(info.URI)
			vm.Session = parseErr == nil && at.Path == "/session"
		}
		return err
	})
	if err := calls.Wait(); err != nil {
		return VM{}, err
	}
	definition, err := domain.Parse(xml)
	if err != nil {
		return VM{}, err
	}
	vm.Mobility = definition.Mobility()
	return vm, readBacking(vm.Mobility.Disks, d.LiveXML)
}

// readBacking reads the backing chains of disks from the live definition: the definition that libvirt sends to the
// target lacks what libvirt found in the images themselves.
func readBacking(disks []domain.MobileDisk, live string) error {
	if live == "" {
		return nil
	}
	definition, err := domain.Parse(live)
	if err != nil {
		return err
	}
	chains := map[string][]domain.BackingImage{}
	for _, disk := range definition.Mobility().Disks {
		chains[disk.Target] = disk.Backing
	}
	for i := range disks {
		disks[i].Backing = chains[disks[i].Target]
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

// DomainBlockers returns everything in the VM itself that blocks moving it: first KubeVirt's reasons, then what
// libvirt refuses in addition. It omits what also depends on the target, such as whether the target reaches a disk.
func DomainBlockers(vm VM) []Blocker {
	var f blockerList
	facts := vm.Mobility
	if vm.Live() {
		f.checkHostDevices(facts)
		f.checkConfidentialMemory(facts)
		f.checkHostFeatures(facts)
		f.checkFormats(facts)
		f.checkHostHelpers(facts)
		f.checkBlockedReasons(vm)
	} else {
		f.checkOffline(vm)
	}
	if vm.Snapshots > 0 {
		f.block(SnapshotsNotMigratable, "", fmt.Sprintf("it has %d snapshots, which libvirt can't move", vm.Snapshots),
			"Delete the snapshots (virsh snapshot-delete).")
	}
	if len(vm.BlockJobs) > 0 {
		f.blockForNow(BlockJobsNotLiveMigratable, "copy jobs run on disks "+strings.Join(vm.BlockJobs, ", "),
			"Wait for the jobs to end, or abort them with virsh blockjob --abort.")
	}
	f.checkState(vm)
	return f
}

// checkHostDevices finds devices of the host, which can't move.
func (f *blockerList) checkHostDevices(facts domain.Mobility) {
	for _, device := range facts.HostDevices {
		f.block(HostDeviceNotLiveMigratable, "", "it has a device of its host: "+device,
			"Detach the device, or shut the VM down.")
	}
	for _, i := range facts.Interfaces {
		if i.Exclusive {
			f.block(InterfaceNotLiveMigratable, "interfaces."+i.Key, fmt.Sprintf("interface %q has the device %q of its host "+
				"for itself (mode passthrough)", i.Key, i.Source), "Use another mode, or shut the VM down.")
		}
	}
	for _, disk := range facts.Disks {
		if disk.Transient {
			f.block(DisksNotLiveMigratable, "disks."+disk.Key, fmt.Sprintf("disk %q is transient: what the guest writes is in "+
				"a temporary file of its host", disk.Key), "Set transient = false, or shut the VM down.")
		}
	}
}

// immobileFormats are the formats of images whose drivers block every migration in QEMU.
var immobileFormats = []string{"qcow", "vmdk", "vdi", "vpc", "vhdx", "parallels"}

// checkFormats finds images that QEMU can't hand over to another process, whether or not the hosts share them.
func (f *blockerList) checkFormats(facts domain.Mobility) {
	for _, disk := range facts.Disks {
		formats := []string{disk.Format}
		for _, image := range disk.Backing {
			formats = append(formats, image.Format)
		}
		for _, format := range formats {
			if slices.Contains(immobileFormats, format) {
				f.block(QEMUNotLiveMigratable, "disks."+disk.Key+".format",
					fmt.Sprintf("disk %q has the format %s, which QEMU can't migrate", disk.Key, format),
					"Convert the image to raw or qcow2 (qemu-img convert), or shut the VM down to move it.")
				break
			}
		}
	}
}

// checkConfidentialMemory finds memory that only the guest can read.
func (f *blockerList) checkConfidentialMemory(facts domain.Mobility) {
	const attribute = "platform.launch_security.type"
	const remedy = "Shut the VM down to move it, or do without memory protection."
	message := "its memory is protected (" + facts.Confidential + "), so it can't be copied"
	switch {
	case strings.HasPrefix(facts.Confidential, "sev"):
		f.block(SEVNotLiveMigratable, attribute, message, remedy)
	case facts.Confidential == "tdx":
		f.block(TDXNotLiveMigratable, attribute, message, remedy)
	case facts.Confidential != "":
		f.block(SecureExecutionNotLiveMigratable, attribute, message, remedy)
	}
}

// checkHostFeatures finds features of the guest that another host can't provide.
func (f *blockerList) checkHostFeatures(facts domain.Mobility) {
	const remedy = "Set the TSC's frequency (platform.clock.tsc_frequency), or do without the feature; both require a " +
		"restart."
	switch kvm := facts.Type == "kvm"; {
	case facts.FixedTSC:
	case facts.InvariantTSC && kvm:
		f.block(NoTSCFrequencyNotLiveMigratable, "cpu.features",
			"its CPU has the feature invtsc and the definition doesn't fix the TSC's frequency", remedy)
	case facts.Reenlightenment && !facts.InvariantTSC:
		f.block(NoTSCFrequencyNotLiveMigratable, "platform.hyperv.reenlightenment",
			"Hyper-V reenlightenment is on and the definition doesn't fix the TSC's frequency", remedy)
	case facts.Values["cpu.migratable"] == "no" && kvm:
		f.mayBlock(NoTSCFrequencyNotLiveMigratable, "cpu.migratable", "its CPU has all features of its host, which blocks "+
			"a migration if invtsc is one of them and the definition doesn't fix the TSC's frequency", remedy)
	}
	if facts.Values["devices.video.accel3d"] == "yes" {
		f.block(QEMUNotLiveMigratable, "devices.video.accel3d",
			"its graphics card has 3D acceleration, which is in the host's own card",
			"Switch it off, which requires a restart, or shut the VM down to move it.")
	}
	for _, device := range facts.Immobile {
		message, remedy := "it has a "+device.What, "Use another model or bus, or shut the VM down to move it."
		if device.SomeQEMU {
			f.mayBlock(QEMUNotLiveMigratable, device.Attribute, message+", which not every QEMU can migrate", remedy)
		} else {
			f.block(QEMUNotLiveMigratable, device.Attribute, message+", which QEMU can't migrate", remedy)
		}
	}
	if facts.HypervPassthrough {
		f.block(HypervPassthroughNotMigratable, "", "its Hyper-V features are whatever its host has",
			"List the features instead of mode='passthrough'.")
	}
}

// checkHostHelpers finds work that helpers on the host do for the guest.
func (f *blockerList) checkHostHelpers(facts domain.Mobility) {
	for _, fs := range facts.Filesystems {
		message := fmt.Sprintf("it shares a directory with its host as %q (%s)", fs.Target, fs.Driver)
		if fs.Driver == "virtiofs" {
			f.block(VirtIOFSNotLiveMigratable, "", message, "Detach the filesystem, or shut the VM down.")
		} else {
			f.mayBlock(VirtIOFSNotLiveMigratable, "", message+", which blocks a migration while the guest has it mounted",
				"Unmount it in the guest, or detach it.")
		}
	}
	for _, memory := range facts.SharedMemory {
		attribute := ""
		if memory.Key != "" {
			attribute = domain.ExtraDevices + "." + memory.Key
		}
		f.block(QEMUNotLiveMigratable, attribute, fmt.Sprintf("it shares memory %q (shmem) with others on its host",
			memory.Name), "Give the device role='master', remove it, or shut the VM down.")
	}
	for _, file := range facts.PersistentMemory {
		f.mayBlock(DisksNotLiveMigratable, "", fmt.Sprintf("it has persistent memory in %q of its host: the guest's is "+
			"copied, and needs the same file or device on the target", file), "Have it there, of the same size.")
	}
	for _, disk := range facts.Disks {
		if disk.Reservations {
			f.block(PersistentReservationNotMigrat, "disks."+disk.Key,
				fmt.Sprintf("disk %q uses SCSI persistent reservations, which stay with its host", disk.Key),
				"Detach the disk, or shut the VM down.")
		}
	}
}

// checkBlockedReasons reports QEMU's own reasons. Some of them were found in the definition too, in other words.
func (f *blockerList) checkBlockedReasons(vm VM) {
	for _, why := range vm.BlockedReasons {
		f.block(QEMUNotLiveMigratable, "", "QEMU refuses to migrate it: "+strings.TrimSuffix(why, "."),
			"Detach the device that QEMU names or do without the feature, which may take a restart; or shut the VM "+
				"down.")
	}
	if vm.BlockedReasonsError != nil {
		f.mayBlock(QEMUNotLiveMigratable, "",
			fmt.Sprintf("QEMU can't be asked what keeps it from being migrated: %v", vm.BlockedReasonsError),
			"See why the host refuses the question.")
	}
}

// checkState finds states and jobs of a VM in which it can't be moved.
func (f *blockerList) checkState(vm VM) {
	switch {
	case vm.Job != "":
		f.blockForNow(StateNotMigratable, "a job runs on it ("+vm.Job+")",
			"Wait for the job to end, or abort it with virsh domjobabort.")
	case vm.State == libvirt.PMSuspended:
		f.block(StateNotMigratable, "", "its guest is suspended to memory", "Wake it up (virsh dompmwakeup).")
	case vm.State == libvirt.ShuttingDown:
		f.blockForNow(StateNotMigratable, "it is shutting down", "Wait until it is off.")
	case vm.State == libvirt.Crashed:
		f.block(StateNotMigratable, "", "its guest has crashed", "Restart it.")
	case vm.State == libvirt.Paused && vm.Reason != "User" && vm.Reason != "FromSnapshot":
		f.block(StateNotMigratable, "", "it is paused ("+vm.Reason+")", "Find out why it was paused, and resume it.")
	}
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
