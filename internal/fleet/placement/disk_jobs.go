package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// diskJobs returns the jobs that run on the disks of a VM.
func diskJobs(ctx context.Context, vm *inventory.VM) []storage.DiskJob {
	if vm.LiveSpec == nil {
		return nil
	}

	return storage.DiskJobs(ctx, vm.On.Conn, vm.UUID, vm.Name, keysOfTargets(vm))
}

// keysOfTargets returns the keys of the running VM's disks, as its definition has them, by target.
func keysOfTargets(vm *inventory.VM) map[string]string {
	keys := map[string]string{}
	for key, disk := range domain.AlignKeys(vm.LiveSpec, vm.DeclaredSpec()).Disks {
		keys[disk.Target] = key
	}

	return keys
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
			Attribute: attribute, Summary: job.Title(), Next: inventory.Replan,
			Detail: job.Prevents(does), Remedy: job.Remedy(),
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
		fmt.Fprintf(&lines, "\n  - %s: %s", job.Disk(), job.What())
	}

	return []inventory.Problem{{
		Summary: "Jobs on disks are lost: " + vm.Name, Warning: true,
		Detail: fmt.Sprintf("The change %s. Jobs run on disks of VM %q on host %q, and end without a result if they "+
			"still run then:%s", does, vm.Name, vm.Host, lines.String()),
		Remedy: fmt.Sprintf("To let them finish, make the change when they have ended: \"virsh domjobinfo %[1]s\" shows a "+
			"backup, \"virsh blockjob %[1]s <disk>\" any other.", domain.ShellWord(vm.Name)),
	}}
}
