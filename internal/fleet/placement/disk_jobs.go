package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// diskJobsLimit is how long QEMU is asked for the jobs on a VM's disks. A QEMU that hangs then doesn't hold up what is
// to be done with the VM.
const diskJobsLimit = 5 * time.Second

// diskJob is a job on a disk of a running VM, with the disk's key.
type diskJob struct {
	libvirt.BlockJob

	key string
}

// diskJobs returns the jobs that run on the disks of a VM. It returns none if QEMU can't be asked: libvirt then refuses
// what a job prevents.
func diskJobs(ctx context.Context, vm *inventory.VM) []diskJob {
	if vm.LiveSpec == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, diskJobsLimit)
	defer cancel()

	found, err := vm.On.Conn.BlockJobs(ctx, vm.UUID)
	if err != nil {
		return nil
	}

	var jobs []diskJob

	keys := keysOfTargets(vm)

	for _, job := range found {
		jobs = append(jobs, diskJob{BlockJob: job, key: cmp.Or(keys[job.Target], job.Target)})
	}

	return jobs
}

// keysOfTargets returns the keys of the running VM's disks, as its definition has them, by target.
func keysOfTargets(vm *inventory.VM) map[string]string {
	keys := map[string]string{}
	for key, disk := range domain.AlignKeys(vm.LiveSpec, vm.DeclaredSpec()).Disks {
		keys[disk.Target] = key
	}

	return keys
}

// what names the job in a sentence.
func (j diskJob) what() string {
	switch j.Type {
	case libvirt.BlockBackup:
		return "backup"
	case libvirt.BlockCopy:
		return "block copy"
	case libvirt.BlockCommit, libvirt.BlockActiveCommit:
		return "block commit"
	case libvirt.BlockPull:
		return "block pull"
	default:
		return "block job"
	}
}

// remedy says how the job ends.
func (j diskJob) remedy(vm *inventory.VM) string {
	end := fmt.Sprintf("virsh blockjob %s %s", domain.ShellWord(vm.Name), j.Target)

	switch j.Type {
	case libvirt.BlockBackup:
		return fmt.Sprintf("Wait until the backup has ended, or abort it on host %q: \"virsh domjobabort %s\".", vm.Host,
			domain.ShellWord(vm.Name))
	case libvirt.BlockCopy, libvirt.BlockActiveCommit:
		return fmt.Sprintf("End the %s on host %q: \"%s --pivot\" has the VM use the image that is written, \"%s --abort\" "+
			"the one that it has.", j.what(), vm.Host, end, end)
	default:
		return fmt.Sprintf("Wait until the %s has ended, or abort it on host %q: \"%s --abort\".", j.what(), vm.Host, end)
	}
}

// CheckDiskJobs returns a problem for each disk with a job that the change grows, or takes from the VM while it runs:
// QEMU refuses both until the job has ended.
func CheckDiskJobs(ctx context.Context, vm *inventory.VM, d Desired) (problems []inventory.Problem) {
	grown, removed := d.resizedLive(vm), d.unpluggedDisks(vm)
	if len(grown)+len(removed) == 0 {
		return nil
	}

	for _, job := range diskJobs(ctx, vm) {
		attribute, does := "disks", "removed from"

		switch declared, grows := grown[job.Target]; {
		case grows:
			attribute, does = OwnDiskAttribute(declared, "size"), "grown in"
		case !removed[job.Target]:
			continue
		}

		problems = append(problems, inventory.Problem{
			Attribute: attribute, Summary: "Job runs on the disk: " + vm.Name, Next: inventory.Replan,
			Detail: fmt.Sprintf("A %s runs on disk %q (%s) of VM %q on host %q. Until it has ended, the disk can't be %s "+
				"the running VM", job.what(), job.key, job.Target, vm.Name, vm.Host, does),
			Remedy: job.remedy(vm),
		})
	}

	return problems
}

// resizedLive returns the declared keys of the own disks that QEMU grows, by target.
func (d Desired) resizedLive(vm *inventory.VM) map[string]string {
	targets := map[string]string{}
	if vm.LiveSpec == nil {
		return targets
	}

	for key, grown := range d.grownDisks(vm) {
		for _, disk := range vm.LiveSpec.Disks {
			if disk.Source.VolumePath() == grown.Path {
				targets[disk.Target] = key
			}
		}
	}

	return targets
}

// unpluggedDisks returns the targets of the disks that the change takes from the running VM at once.
func (d Desired) unpluggedDisks(vm *inventory.VM) map[string]bool {
	targets := map[string]bool{}
	if vm.LiveSpec == nil {
		return targets
	}

	have := vm.Entry.Parse().Live.DiskUses()
	have = slices.DeleteFunc(have, func(use domain.DiskUse) bool { return use.NVDIMM })
	keys, at := keysOfTargets(vm), map[string]string{}

	for i, use := range have {
		target := vm.LiveSpec.Disks[use.Key].Target
		have[i].Key = cmp.Or(keys[target], use.Key)
		at[have[i].Key] = target
	}

	kept := d.keptUses(have)
	renamed := slices.Collect(maps.Values(d.Renamed))
	unplugged := map[string]bool{}

	// A disk that only the next start takes away stays in QEMU.
	if live := vm.RunningSpec(d.Spec); live != nil {
		for _, c := range domain.Changes(*live, d.Spec) {
			unplugged[c.Path] = c.Live
		}
	}

	for _, use := range have {
		stays := slices.ContainsFunc(kept, func(k domain.DiskUse) bool { return k.Key == use.Key })
		held := !d.AsksAgain(vm) && slices.Contains(vm.LiveSpec.Held, "disks."+use.Key) ||
			slices.Contains(d.StaysRunning, "disks."+use.Key)

		if !stays && !held && !slices.Contains(renamed, use.Key) && unplugged["disks."+use.Key] {
			targets[at[use.Key]] = true
		}
	}

	return targets
}

// endsProcess says what the change does to a VM that runs, if it ends the VM's process; "" otherwise.
func (d Desired) endsProcess(vm *inventory.VM) string {
	action := d.PowerAction(vm)

	switch {
	case !vm.Active:
		return ""
	case action == status.Stop:
		return "shuts the VM down"
	case action == status.Start, d.restarts(vm), d.Power != nil && d.Power.Restarts:
		return "restarts the VM"
	default:
		return ""
	}
}

// WarnOfJobs warns about jobs on the VM's disks, such as a backup, that are lost when the VM is deleted.
func (p *Scheduler) WarnOfJobs(ctx context.Context, vm *inventory.VM) []inventory.Problem {
	return warnOfJobs(ctx, vm, "shuts the VM down and deletes it")
}

// warnOfJobs warns about the jobs on the VM's disks that end unfinished with its process. does says what is done to the
// VM, "" if its process stays.
func warnOfJobs(ctx context.Context, vm *inventory.VM, does string) []inventory.Problem {
	if does == "" {
		return nil
	}

	jobs := diskJobs(ctx, vm)
	if len(jobs) == 0 {
		return nil
	}

	var lines strings.Builder
	for _, job := range jobs {
		fmt.Fprintf(&lines, "\n  - disk %q (%s): %s", job.key, job.Target, job.what())
	}

	return []inventory.Problem{{
		Summary: "Jobs on disks are lost: " + vm.Name, Warning: true,
		Detail: fmt.Sprintf("The change %s. Jobs run on disks of VM %q on host %q, and end without a result if they "+
			"still run then:%s", does, vm.Name, vm.Host, lines.String()),
		Remedy: fmt.Sprintf("To let them finish, make the change when they have ended: \"virsh domjobinfo %[1]s\" shows a "+
			"backup, \"virsh blockjob %[1]s <disk>\" any other.", domain.ShellWord(vm.Name)),
	}}
}
