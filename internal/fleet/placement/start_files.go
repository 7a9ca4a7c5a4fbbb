package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A file of a disk may be deleted while its VM is off. libvirt then refuses to start the VM. Such a disk is never
// created again by itself: what was on it may be in a backup. A VM that runs still has a file that was deleted, until
// it is shut down.

// fitsStartedDisks returns which files of disks that the VM has already are missing on its host, if the change starts
// or restarts the VM. A file that may appear, because its filesystem isn't mounted or its storage pool isn't active, is
// a doubt.
func (p *Scheduler) fitsStartedDisks(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, d Desired,
) (problems, doubts []inventory.Problem) {
	restarts := vm.Active && d.Power != nil && d.Power.Restarts
	if !d.starts(vm) && !restarts || a.Host != vm.On {
		return nil, nil // The checks of a move look for the files.
	}

	disks := d.keptDisks(vm)
	found := p.hosts.FindFiles(ctx, a.Host, slices.Compact(slices.Sorted(maps.Values(disks))))

	for _, key := range slices.Sorted(maps.Keys(disks)) {
		file := disks[key]
		attribute, remedy := d.goneDisk(key)
		consequence := "so that the VM can't be started"

		if restarts {
			consequence = "and what was on it is lost when the VM is shut down"
			remedy = fmt.Sprintf("Copy the disk while the VM runs: \"virsh blockcopy %s %s --pivot --wait --transient-job "+
				"--dest\" with another path. Then declare that path, or put the file back.", domain.ShellWord(vm.Name),
				domain.ShellWord(file))
		}

		doubt := inventory.Problem{
			Attribute: attribute, Warning: true, Summary: "File not found on the host", Remedy: remedy,
			Detail: fmt.Sprintf("Disk %q of VM %q is %s. ", key, vm.Name, file),
		}

		switch found[file] {
		case inventory.FileAbsent:
			// The user who logs in may see other directories than libvirt.
			if _, err := a.Host.Conn.VolumeByPath(ctx, file); err == nil {
				continue
			}

			if left := leftSince(ctx, vm); left != nil {
				return []inventory.Problem{*left}, nil
			}

			hidden := p.mayAppear(ctx, a.Host, file)
			if hidden == "" {
				problems = append(problems, inventory.Problem{
					Attribute: attribute, Remedy: remedy,
					Detail: fmt.Sprintf("it has no file %q, which is disk %q of the VM, %s", file, key, consequence),
				})

				continue
			}

			doubt.Detail += fmt.Sprintf("Host %q has no such file now, and %s. Until that changes, the VM can't be started, "+
				"and this change fails.", a.Host.Name, hidden)
			if !restarts {
				doubt.Remedy = remedyOfHidden
			}
		case inventory.FileDoubtful:
			doubt.Detail += fmt.Sprintf("The storage pool of that directory on host %q has no such volume, as it was when it "+
				"was refreshed last. Without the file, the VM can't be started.", a.Host.Name)
		default:
			continue
		}

		doubts = append(doubts, doubt)
	}

	return problems, doubts
}

// leftSince returns the problem that the VM isn't on its host any more. It returns nil if the VM is there, or if the
// host doesn't answer. A cold move takes the VM's files along. If they were called lost, the user might replace a good
// disk.
func leftSince(ctx context.Context, vm *inventory.VM) *inventory.Problem {
	if _, err := vm.On.Conn.Domain(ctx, vm.UUID); !inventory.IsNotFound(err) {
		return nil
	}

	return &inventory.Problem{
		Detail: "it doesn't have the VM any more: another run or a user has moved or removed it meanwhile",
		Remedy: "Try again.",
	}
}

// keptDisks returns the files of the disks, by key, that the VM has already and keeps. Media aren't among them: a drive
// may be without one. Nor is what the same apply may create.
func (d Desired) keptDisks(vm *inventory.VM) map[string]string {
	files := diskFiles(vm)
	maps.DeleteFunc(files, func(key, file string) bool {
		want, declared := d.Spec.Disks[key]

		return d.Spec.Disks != nil && (!declared || d.mayCreate(key)) || want.Source.File != "" && want.Source.File != file
	})

	return files
}

// mayCreate reports whether a declared disk may be a volume that the same apply creates. Its source is then not known
// yet, or no resource is known to be without it.
func (d Desired) mayCreate(key string) bool {
	if _, own := d.OwnDisks[key]; own || d.Files["disks."+key+".file"] != "" {
		return false
	}

	id := d.Volumes[key]

	return id == "" || storage.ParseRef(id) != nil && !d.UnplannedVolumes[id]
}

// diskFiles returns the files of the VM's disks at its next start, by key, without media.
func diskFiles(vm *inventory.VM) map[string]string {
	files := map[string]string{}

	for key, disk := range vm.DeclaredSpec().Disks {
		if disk.Source.File != "" && disk.Device != "cdrom" && disk.Device != "floppy" {
			files[key] = disk.Source.File
		}
	}

	return files
}

// goneDisk returns the attribute of a disk whose file is gone, and what to do about it.
func (d Desired) goneDisk(key string) (attribute, remedy string) {
	_, own := d.OwnDisks[key]
	_, volume := d.Volumes[key]

	switch {
	case own:
		return "disks." + key + ".pool", remedyOfGone + " If what was on it may be lost, have an empty disk instead, or a " +
			"new one from its image: remove the disk from disks as a change of its own, with run_strategy = \"Halted\", and " +
			"then declare it again."
	case volume:
		return "disks." + key + ".volume", remedyOfGone + " Or create the volume again, without what was on it."
	default:
		return "disks." + key + ".file", remedyOfGone + " Or correct the path."
	}
}

const remedyOfGone = "Put the file back under its path, from a backup for example. Nothing does that by itself."

// mayAppear returns why a file that a host lacks may be there later, "" if nothing says so.
func (p *Scheduler) mayAppear(ctx context.Context, h *inventory.Host, file string) string {
	if err := storage.CheckMountedAt(ctx, h.Files(), path.Dir(file)); err != nil {
		return err.Error()
	}

	// libvirt may run in a container, which has other directories.
	if dir := path.Dir(file); !p.hosts.FilesOn(ctx, h, []string{dir})[dir] {
		return "the user who logs in doesn't see its directory either"
	}

	v, err := p.hosts.ViewOf(ctx, h)
	if err != nil {
		return ""
	}

	all, err := v.StoragePools(ctx, h)
	if err != nil {
		return ""
	}

	for _, pool := range all {
		is, err := storage.ReadPool(pool.XML)
		if err != nil || is.Directory() == "" ||
			!strings.HasPrefix(file, strings.TrimSuffix(path.Clean(is.Directory()), "/")+"/") {
			continue
		}

		if !pool.Active && is.LosesVolumes() {
			return fmt.Sprintf("storage pool %q, which has that directory, isn't active", pool.Name)
		}

		if err := storage.CheckMounted(ctx, h.Files(), &pool); err != nil {
			return err.Error()
		}
	}

	return ""
}

// ExplainStart returns the error of a start as one that names the files of disks that the host lacks, or else the
// secrets that may be the cause. A backup is advised only for a file that isn't hidden: it would become the disk below
// a filesystem that isn't mounted, which has the newer data.
func (p *Scheduler) ExplainStart(ctx context.Context, vm *inventory.VM, cause error) error {
	if errors.Is(cause, inventory.ErrUnreachable) || errors.Is(cause, ErrShared) || ctx.Err() != nil {
		return cause
	}

	disks := diskFiles(vm)
	there := p.hosts.FilesOn(ctx, vm.On, slices.Compact(slices.Sorted(maps.Values(disks))))

	var gone, hidden, reasons, remedies []string

	for _, key := range slices.Sorted(maps.Keys(disks)) {
		file := disks[key]
		if has, known := there[file]; !known || has {
			continue
		}

		// The user who logs in may see other directories than libvirt.
		if _, err := vm.On.Conn.VolumeByPath(ctx, file); err == nil {
			continue
		}

		what := fmt.Sprintf("%s, which is disk %q", file, key)
		if why := p.mayAppear(ctx, vm.On, file); why != "" {
			hidden = append(hidden, what+" ("+why+")")
		} else {
			gone = append(gone, what)
		}
	}

	if len(gone) > 0 {
		reasons = append(reasons, "because its host has no file "+strings.Join(gone, ", and none "))
		remedies = append(remedies, remedyOfGone)
	}

	if len(hidden) > 0 {
		reasons = append(reasons, "perhaps because its host doesn't show "+strings.Join(hidden, ", nor "))
		remedies = append(remedies, remedyOfHidden)
	}

	if len(reasons) == 0 {
		remedy := SecretRemedy(ctx, vm.On, vm.DeclaredSpec().Secrets(), cause)
		if remedy == "" {
			return cause
		}

		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Err: cause, Detail: "it does not start", Remedy: remedy, Next: inventory.Retry,
		}
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Err: cause, Next: inventory.Retry,
		Detail: "it does not start, " + strings.Join(reasons, ", and "), Remedy: strings.Join(remedies, " "),
	}
}

const remedyOfHidden = "If the filesystem or storage pool of a file isn't mounted or active, change that first. Put " +
	"no other file under such a path: what was written last may be in the hidden one."

// warnGoneMedia warns of the first-boot volumes that the VM has no longer, and that the change therefore creates again.
func warnGoneMedia(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	var attribute, doubt string

	var gone []string

	for _, key := range []string{domain.MediumKey, domain.IgnitionKey} {
		is := vm.Metadata.OwnDisks[key]
		want := d.OwnDisk(key, is)

		if is.Volume == "" || is.Creating || !vm.OwnsHere(is) || want.Content != is.Content || want.Pool != is.Pool {
			continue // There is none, or the change replaces it.
		}

		if _, err := vm.On.Conn.PoolVolume(ctx, is.Pool, is.Volume); inventory.IsNotFound(err) {
			if pool, err := vm.On.Conn.StoragePool(ctx, is.Pool); err == nil {
				if err := storage.CheckMounted(ctx, vm.On.Files(), pool); err != nil {
					doubt = " That fails now: " + err.Error() + "."
				}
			}

			attribute = OwnDiskAttribute(key, "pool")
			gone = append(gone, fmt.Sprintf("%s: %s/%s", OwnDiskTitle(key), is.Pool, is.Volume))
		}
	}

	if len(gone) == 0 {
		return nil
	}

	return []inventory.Problem{{
		Attribute: attribute, Warning: true, Summary: "File not found on the host",
		Detail: fmt.Sprintf("Host %q has these volumes of VM %q no longer. They are created again with what is "+
			"declared.%s\n  - %s", vm.Host, vm.Name, doubt, strings.Join(gone, "\n  - ")),
	}}
}
