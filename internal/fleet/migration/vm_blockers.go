package migration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

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
		f.block(SnapshotsNotMigratable, "", fmt.Sprintf("it has snapshots (%d), which libvirt can't move", vm.Snapshots),
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
		f.block(HostDeviceNotLiveMigratable, device.Attribute, "it has a device of its host: "+device.What,
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
		f.block(HypervPassthroughNotLiveMigratable, "platform.hyperv.mode", "its Hyper-V features are whatever its host has",
			"List the features instead of mode='passthrough'.")
	}
}

// checkHostHelpers finds work that helpers on the host do for the guest.
func (f *blockerList) checkHostHelpers(facts domain.Mobility) {
	for _, fs := range facts.Filesystems {
		message := fmt.Sprintf("it shares a directory with its host as %q (%s)", fs.Target, fs.Driver)
		if fs.Driver == "virtiofs" {
			f.block(VirtIOFSNotLiveMigratable, fs.Attribute, message, "Detach the filesystem, or shut the VM down.")
		} else {
			message += ", which blocks a migration while the guest has it mounted"
			f.mayBlock(VirtIOFSNotLiveMigratable, fs.Attribute, message, "Unmount it in the guest, or detach it.")
		}
	}
	for _, memory := range facts.SharedMemory {
		f.block(QEMUNotLiveMigratable, memory.Attribute, fmt.Sprintf("it shares memory %q (shmem) with others on its host",
			memory.Name), "Give the device role='master', remove it, or shut the VM down.")
	}
	for _, memory := range facts.PersistentMemory {
		f.mayBlock(DisksNotLiveMigratable, memory.Attribute, fmt.Sprintf("it has persistent memory in %q of its host: the "+
			"guest's is copied, and needs the same file or device on the target", memory.Name),
			"Have it there, of the same size.")
	}
	for _, disk := range facts.Disks {
		if disk.Reservations {
			f.block(PersistentReservationNotLiveMigratable, "disks."+disk.Key,
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

// checkOffline finds what a stopped VM has on its host that can't be copied.
func (f *blockerList) checkOffline(vm VM) {
	facts := vm.Mobility
	if vm.ManagedSave {
		f.block(ManagedSaveNotMigratable, "", "its memory was saved on its host, and would stay there",
			"Start it and move it while it runs, or drop the memory with virsh managedsave-remove.")
	}
	const remedy = "Start the VM and move it while it runs."
	if facts.NVRAMOther != "" && facts.NVRAMOther != "network" {
		f.block(NVRAMNotMigratable, "firmware", "its firmware's variables are in storage of type "+facts.NVRAMOther+
			" of its host", remedy)
	}
	if vm.Session && facts.NVRAMUnnamed {
		f.block(NVRAMNotMigratable, "firmware", "where its user's libvirt keeps its firmware's variables is not known",
			remedy)
	}
	switch {
	case vm.Session && facts.TPM == "emulator":
		f.block(TPMNotMigratable, "", "where its user's libvirt keeps the state of its TPM is not known", remedy)
	case facts.TPM == "external":
		f.block(TPMNotMigratable, "", "the state of its TPM is kept by a program of its host",
			`Leave the VM there, or first give it another TPM: devices.tpm.backend = "emulator".`)
	case facts.TPMSpecial != "":
		f.block(TPMNotMigratable, "", "the state of its TPM is not kept as usual: "+facts.TPMSpecial, remedy)
	}
	for _, disk := range facts.Disks {
		if disk.Network || disk.Empty || disk.Path != "" && !disk.Block {
			continue
		}
		if disk.Shareable {
			if !disk.Shared {
				f.mayBlock(DisksNotLiveMigratable, "disks."+disk.Key, fmt.Sprintf("disk %q is %s, is shareable and isn't copied, "+
					"and whether the target reaches the same storage is unknown", disk.Key, describeStorage(disk)),
					"Make sure that it does, then say so: disks."+disk.Key+".shared = true.")
			}
			continue
		}
		f.block(DisksNotLiveMigratable, "disks."+disk.Key, fmt.Sprintf("disk %q is %s of its host, and only files are copied",
			disk.Key, describeStorage(disk)), "Start the VM and move it while it runs, or use network storage.")
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
