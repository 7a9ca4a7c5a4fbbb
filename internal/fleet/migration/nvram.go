package migration

import (
	"context"
	"log/slog"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// NVRAMFiles returns the files of the host in which the VM's firmware may keep its variables.
func (vm VM) NVRAMFiles() []string {
	var paths []string
	for _, b := range vm.localFiles() {
		if b.reason == NVRAMNotMigratable {
			paths = append(paths, b.path)
		}
	}
	return paths
}

// noteNVRAM notes which files of the firmware's variables the target lacks before the migration. libvirt creates them
// there, but removes neither the target's files after a failed migration nor the source's after a successful one.
func (r *run) noteNVRAM(ctx context.Context) {
	if r.VM.Session {
		return
	}
	for _, file := range r.VM.NVRAMFiles() {
		if there, err := r.Target.FileIfThere(ctx, file); err != nil {
			r.log.WarnContext(ctx, "not known whether the target has these firmware variables", "file", file,
				"error", err.Error())
		} else if there == nil {
			r.nvramFiles = append(r.nvramFiles, file)
		}
	}
}

// RemoveNVRAM removes the firmware's variables that a finished migration left on the host that the VM is not on. It
// considers only files that the target did not have before the migration. other is the host that the VM is on. A file
// stays if both hosts have the same file, or if any domain of the host uses it. RemoveNVRAM returns the files that
// remain.
func RemoveNVRAM(ctx context.Context, on, other *libvirt.Host, files []string, log *slog.Logger) (left []string) {
	ctx, cancel := lease.CleanupContext(ctx, removalTimeout)
	defer cancel()
	for _, file := range files {
		removed, err := removeNVRAMFile(ctx, on, other, file)
		switch {
		case err != nil:
			log.WarnContext(ctx, "firmware's variables not removed", "host", on.Name(), "path", file, "error", err.Error())
			left = append(left, file)
		case removed:
			log.InfoContext(ctx, "removed the firmware's variables that were left", "host", on.Name(), "path", file)
		}
	}
	return left
}

func removeNVRAMFile(ctx context.Context, on, other *libvirt.Host, file string) (bool, error) {
	here, err := on.FileIfThere(ctx, file)
	if err != nil || here == nil {
		return false, err
	}
	there, err := other.FileIfThere(ctx, file)
	if err != nil || there == nil || isShared(here, there) {
		return false, err
	}
	if used, err := usedOn(ctx, on, file); err != nil || used {
		return false, err
	}
	return true, on.RemoveFile(ctx, file)
}

// MayShareState says whether the files in which firmware and TPM of a VM keep their state on a host that the VM left
// may be the same files that the VM uses on the other host, where it is now: IsSameFile says it of files that both
// have.
func MayShareState(ctx context.Context, vm VM, on, other *libvirt.Host) (bool, error) {
	for _, b := range vm.localFiles() {
		if b.disk != "" {
			continue
		}
		here, err := on.FileIfThere(ctx, b.path)
		if err != nil {
			return true, err
		}
		there, err := other.FileIfThere(ctx, b.path)
		if err != nil {
			return true, err
		}
		if here == nil || there == nil {
			continue
		}
		if same, err := IsSameFile(ctx, on, other, b.path); err != nil || same {
			return true, err
		}
	}
	return false, nil
}
