package drain

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// isUnchanged says whether the file is as the move left it.
func isUnchanged(k hostrecord.KeptFile, v libvirt.Volume) bool {
	return k.Changed != "" && k.Changed == v.Changed && k.Bytes == v.PhysicalBytes
}

// noteKept records in a step which images its move left on the host, because it keeps them or couldn't remove them. It
// does so also if ctx has ended, or the VM was not started after the move.
func (d *drainRun) noteKept(ctx context.Context, i int, how move.SourceFiles) {
	d.mu.Lock()
	d.steps[i].LostCheckpoints = how.LostCheckpoints
	d.mu.Unlock()

	if !how.Kept && len(how.Stay) == 0 {
		return
	}

	after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	kept, err := keptFiles(after, d.host, how.Copied)
	if err != nil { // They are not recorded, so no run removes them.
		d.drainer.log.WarnContext(ctx, "images that were copied and kept were not noted", "name", d.steps[i].Name,
			"error", err.Error())
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.steps[i].Stay = how.Stay
	if how.Kept || len(how.Copied) > 0 { // Otherwise the VM had arrived before, and noteKeptByKilled has noted them.
		d.steps[i].Kept = kept
	}
}

// noteKeptByKilled notes in the step of a VM that has left which images its move left on the host, if the earlier drain
// was killed before it could. As long as the record of that move is open, the VM names the files.
func (d *drainRun) noteKeptByKilled(ctx context.Context, uuid string) {
	vm, err := d.drainer.hosts.FindNow(ctx, uuid, d.lastKnown())
	if err != nil || vm.On == d.host || vm.Migrating || vm.OpenMigration() == nil {
		return
	}

	info, err := d.host.Conn.Info(ctx)
	if err != nil {
		return // The next call to the host reports it.
	}

	var files []string

	for _, c := range vm.Metadata.Copies {
		removed := slices.ContainsFunc(vm.Metadata.LeftVolumes, func(l domain.LeftVolume) bool {
			return l.HostUUID == info.UUID && l.Path == c.Path
		})
		if c.HostUUID == vm.HostUUID && c.FromUUID == info.UUID && !c.Creating && !removed && vm.HasFile(c.Path) {
			files = append(files, c.Path)
		}
	}

	i := slices.IndexFunc(d.steps, func(s hostrecord.RecordedStep) bool { return s.UUID == uuid })
	d.noteKept(ctx, i, move.SourceFiles{From: d.host, Copied: files, Kept: true})
}

// keptFiles returns the files as they are now, without those that don't exist.
func keptFiles(ctx context.Context, h *inventory.Host, paths []string) ([]hostrecord.KeptFile, error) {
	var kept []hostrecord.KeptFile

	for _, p := range paths {
		d, err := h.Conn.Directory(ctx, path.Dir(p), path.Base(p))
		if err != nil {
			return kept, err
		}

		if v, ok := d.Files[path.Base(p)]; ok && v.Changed != "" {
			kept = append(kept, hostrecord.KeptFile{Path: p, Bytes: v.PhysicalBytes, Changed: v.Changed})
		}
	}

	return kept, nil
}

// removeStaleImages removes the images that the VM left on the host, so that its disks can be copied back. It does so
// only if nothing else blocks the move back, and only for images that are proven to be those that the VM left: see
// removeKeptImages. An image that stays blocks the move: see explainTaken. stay says why each of them stays.
func (r *releaseRun) removeStaleImages(
	ctx context.Context, s hostrecord.RecordedStep, o migration.Options,
) (stay []string, err error) {
	if len(s.Kept) == 0 {
		return nil, nil
	}

	err = r.drainer.mover.WithVMLocked(ctx, s.UUID, inventory.LastKnown{Host: s.Target}, "restoring",
		func(ctx context.Context, vm *inventory.VM) error {
			if vm.Host != s.Target {
				return nil
			}

			effective, err := r.drainer.records.MigrationOptionsOf(ctx, vm, o)
			if err != nil {
				return err
			}

			if s.Method != evacuation.MethodCold { // Other blockers apply once it is off.
				_, blockers, err := r.drainer.mover.FindBlockers(ctx, vm, r.host, effective.Options)
				if err != nil {
					return err
				}

				if slices.ContainsFunc(migration.Blocking(blockers), func(b migration.Blocker) bool {
					return b.Reason != migration.DiskPathTaken
				}) {
					return nil
				}
			}

			stay, err = r.drainer.removeKeptImages(ctx, r.host, s.Kept, vm.On)

			return err
		})

	return stay, err
}

// explainTaken adds to the error of a move back why the images in its way were not removed, if they block it.
func explainTaken(err error, stay []string) error {
	blocked, ok := errors.AsType[*migration.BlockedError](err)
	if !ok || len(stay) == 0 || !slices.ContainsFunc(blocked.Blockers, func(b migration.Blocker) bool {
		return b.Reason == migration.DiskPathTaken
	}) {
		return err
	}

	return fmt.Errorf("%w; what the drain left there was not removed: %s", err, strings.Join(stay, "; "))
}

// copiesOf returns the disk images that the drain made on the host to which it moved the VM of a step. They don't stay
// there when the VM comes back. Others stay, such as that of a disk that the VM got there.
func copiesOf(s hostrecord.RecordedStep) []string {
	files := make([]string, len(s.Kept))
	for i, k := range s.Kept {
		files[i] = k.Path
	}

	return files
}

// removeLeft removes what the move that brought the VM back left on other hosts, if its run was killed before it could.
func (r *releaseRun) removeLeft(ctx context.Context, s hostrecord.RecordedStep) {
	err := r.drainer.mover.WithVMLocked(ctx, s.UUID, inventory.LastKnown{Host: r.host.Name}, "restoring",
		func(ctx context.Context, vm *inventory.VM) error {
			if vm.On != r.host {
				return nil
			}

			_, err := r.drainer.mover.RemoveLeftVolumes(ctx, vm, nil, false)

			return err
		})
	if err != nil { // The VM is back, so this is no error. What is left stays noted in the VM.
		r.drainer.log.WarnContext(ctx, "copies of disks were not removed", "name", s.Name, "error", err.Error())
	}
}

// removeKeptImages removes images that a move left on a host, while the VM is on the other host. An image stays if it
// was changed, if it is the same file that the other host has at this path, or if something on the host uses it. stay
// says why.
func (dr *Drainer) removeKeptImages(
	ctx context.Context, h *inventory.Host, kept []hostrecord.KeptFile, other *inventory.Host,
) (stay []string, err error) {
	users := migration.UsersOn(h.Conn)

	for _, k := range kept {
		here, err := h.Conn.Directory(ctx, path.Dir(k.Path), path.Base(k.Path))
		if err != nil {
			return stay, err
		}

		v, ok := here.Files[path.Base(k.Path)]
		if !ok {
			continue
		}

		why := "it was changed"
		if isUnchanged(k, v) {
			if why, err = users.Of(ctx, k.Path); err != nil {
				return stay, err
			}
		}

		if why == "" {
			there, err := keptFiles(ctx, other, []string{k.Path})
			if err != nil {
				return stay, err
			}

			if len(there) == 0 || there[0] == k {
				why = fmt.Sprintf("host %q has no other one", other.Name)
			}
		}

		if why != "" {
			stay = append(stay, k.Path+": "+why)
			dr.log.WarnContext(ctx, "an image that a move left stays", "host", h.Name, "file", k.Path, "reason", why)

			continue
		}

		dr.log.InfoContext(ctx, "removing an image that a move left", "host", h.Name, "file", k.Path)

		if err := h.Conn.RemoveFile(ctx, k.Path); err != nil {
			return stay, err
		}
	}

	return stay, nil
}
