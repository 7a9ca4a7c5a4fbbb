package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// OwnsHere reports whether the recorded volume is the VM's on the VM's present host. The record moves with the VM to
// other hosts, where a volume of that name may belong to another VM.
func (vm *VM) OwnsHere(o domain.OwnDisk) bool {
	return o.HostUUID != "" && o.HostUUID == vm.HostUUID || vm.HasFile(o.Path)
}

// VolumesLeft returns a sentence about the volumes that were created for the VM and stay when a user undefines it, with
// the commands that remove them; "" if there are none. It ends with a space.
func (vm *VM) VolumesLeft() string {
	var commands []string

	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		if o := vm.Metadata.OwnDisks[key]; vm.OwnsHere(o) {
			commands = append(commands, fmt.Sprintf("\"virsh vol-delete --pool %s %s\"", o.Pool, o.Volume))
		}
	}

	if len(commands) == 0 {
		return ""
	}

	return "That keeps the volumes that were created for it. Remove those whose data you don't need, as far as they are " +
		"there, with " + strings.Join(commands, ", ") + ". "
}

// Lost returns the own disks of which the VM has neither the record nor the file any more. before are the disks that
// were recorded, already those that it had lost. If it has lost two volumes of one key, the older one gets the key
// "<key>.<volume>", as retired disks do.
func (vm *VM) Lost(before, already map[string]domain.OwnDisk) map[string]domain.OwnDisk {
	known := map[string]bool{}
	for _, o := range vm.Metadata.OwnDisks {
		known[o.Path] = true
	}

	for _, l := range vm.Metadata.LeftVolumes {
		known[l.Path] = true
	}

	lost := map[string]domain.OwnDisk{}

	for _, had := range []map[string]domain.OwnDisk{already, before} {
		for key, o := range had {
			if known[o.Path] || vm.HasFile(o.Path) || o.Creating {
				continue
			}

			if older, there := lost[key]; there && older.Path != o.Path {
				lost[key+"."+older.Volume] = older
			}

			o.Removing, o.SeenIn = false, ""
			lost[key] = o
		}
	}

	return lost
}

// HasFile reports whether the file, or the RBD image, of a volume at that path is a disk or first-boot medium of the
// VM, now or at its next start.
func (vm *VM) HasFile(file string) bool {
	return HasFile(vm.PersistentSpec, file) || HasFile(vm.LiveSpec, file)
}

// HasAtNextStart reports whether the file is a disk or first-boot medium of the VM at its next start. For a transient
// VM, which has no next start, it says what the VM has now.
func (vm *VM) HasAtNextStart(file string) bool { return HasFile(vm.DeclaredSpec(), file) }

// HasFile reports whether the file, or the RBD image, of a volume is a disk or first-boot medium in a definition.
func HasFile(spec *domain.Spec, file string) bool { return slices.Contains(volumesOf(spec), file) }

// FilesAtNextStart returns the files that HasAtNextStart reports.
func (vm *VM) FilesAtNextStart() []string {
	return slices.DeleteFunc(volumesOf(vm.DeclaredSpec()), func(at string) bool { return !path.IsAbs(at) })
}

// volumesOf returns what libvirt says as the paths of the volumes of a definition's disks and first-boot media.
func volumesOf(spec *domain.Spec) (files []string) {
	if spec == nil {
		return nil
	}

	if spec.Ignition != nil {
		files = append(files, *spec.Ignition)
	}

	for _, d := range spec.Disks {
		files = append(files, d.Source.VolumePath())
	}

	return files
}

// LacksMedium reports whether the running VM lacks a first-boot medium that is recorded.
func (vm *VM) LacksMedium() bool {
	for recorded, o := range vm.Metadata.OwnDisks {
		if key, _, _ := strings.Cut(recorded, "."); key == domain.MediumKey && !HasFile(vm.LiveSpec, o.Path) {
			return true
		}
	}

	return false
}

// LeftFirstBoot returns the first volume, as "<pool>/<volume>", that was created for the first-boot medium of a key and
// that this host still has. It returns "" for none, and if one of the definitions has one of them.
func (vm *VM) LeftFirstBoot(key string, unlessIn ...*domain.Spec) string {
	left := ""

	for _, recorded := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		o := vm.Metadata.OwnDisks[recorded]
		if made, _, _ := strings.Cut(recorded, "."); made != key || !vm.OwnsHere(o) { // Another may have replaced it.
			continue
		}

		if slices.ContainsFunc(unlessIn, func(spec *domain.Spec) bool { return HasFile(spec, o.Path) }) {
			return ""
		}

		left = cmp.Or(left, o.Pool+"/"+o.Volume)
	}

	return left
}

// IsElsewhere reports whether the running VM uses another file in place of the volume that was created for its disk,
// and that file isn't based on the volume. It returns false if that is unknown: what a VM that is off uses may be an
// overlay.
func (vm *VM) IsElsewhere(key string, o domain.OwnDisk) bool {
	if !vm.Active || vm.Entry == nil || vm.HasFile(o.Path) || o.Creating || o.Removing {
		return false
	}

	for _, use := range vm.Entry.DiskUses() {
		if use.Key != key || use.NVDIMM {
			continue
		}

		based := slices.ContainsFunc(use.Backing, func(b domain.DiskSource) bool { return b.Name() == o.Path })

		return !based && (use.Source.File != "" || use.Source.Block != "")
	}

	return false
}

// ReplacedDisk is an own disk of a stopped VM whose definition has another file in place of its volume.
type ReplacedDisk struct {
	Key string
	// Based says that the file is based on the volume, as after a snapshot. If that isn't Known, it is a guess.
	Based, Known bool
}

// Elsewhere returns the own disks of the running VM that IsElsewhere says of. Of a VM that is off, it returns those
// whose files aren't based on their volumes; while that is unknown, those of which it was known before.
func (vm *VM) Elsewhere(before map[string]string) map[string]string {
	files := map[string]string{}

	for key, o := range vm.Metadata.OwnDisks {
		if vm.IsElsewhere(key, o) || !vm.Active && before[key] == o.Path && !vm.HasFile(o.Path) {
			files[key] = o.Path
		}
	}

	for _, r := range vm.Replaced {
		if r.Known && r.Based {
			delete(files, r.Key)
		} else if r.Known {
			files[r.Key] = vm.Metadata.OwnDisks[r.Key].Path
		}
	}

	return files
}

// MayBeElsewhere returns the volumes of own disks in whose place the stopped VM has files of which nothing is known.
func (vm *VM) MayBeElsewhere() map[string]string {
	files := map[string]string{}

	for _, r := range vm.Replaced {
		if !r.Known && !r.Based {
			files[r.Key] = vm.Metadata.OwnDisks[r.Key].Path
		}
	}

	return files
}

// Movable returns the VM's own disks, by key, that move with it: those that are created and that the VM uses.
func (vm *VM) Movable() map[string]domain.OwnDisk {
	own := maps.Clone(vm.Metadata.OwnDisks)
	maps.DeleteFunc(own, func(_ string, o domain.OwnDisk) bool { return o.Creating || !vm.HasFile(o.Path) })

	return own
}

// Leaving returns what a move leaves behind at the source: what was recorded before, the volumes of own disks whose
// files were created on the target, and the originals of other disks.
func (vm *VM) Leaving(made []string, originals ...string) []domain.LeftVolume {
	left := slices.Clone(vm.Metadata.LeftVolumes)

	for _, file := range originals {
		l := domain.LeftVolume{Host: vm.Host, HostUUID: vm.HostUUID, Path: file}
		if !slices.Contains(left, l) {
			left = append(left, l)
		}
	}

	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		o := vm.Metadata.OwnDisks[key]
		l := domain.LeftVolume{Host: vm.Host, HostUUID: vm.HostUUID, Pool: o.Pool, Volume: o.Volume, Path: o.Path}

		if !o.Creating && slices.Contains(made, o.Path) && !slices.Contains(left, l) {
			left = append(left, l)
		}
	}

	return left
}

// NotOwn returns the files without those of own disks.
func (vm *VM) NotOwn(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(file string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(vm.Metadata.OwnDisks)), func(o domain.OwnDisk) bool {
			return o.Path == file
		})
	})
}

// LeftElsewhere returns what moves and killed runs left. On the VM's own host, the files are its disks, even if another
// tool brought it back there; only volumes of own disks that the VM has lost are left over.
func (vm *VM) LeftElsewhere() []domain.LeftVolume {
	return slices.DeleteFunc(slices.Clone(vm.Metadata.LeftVolumes), vm.Uses)
}

// Uses reports whether something that was left is a disk of the VM again, because the VM is back on that host.
func (vm *VM) Uses(l domain.LeftVolume) bool {
	return l.HostUUID == vm.HostUUID && (l.IsOriginal() || vm.HasFile(l.Path))
}

// SettleMoved updates the VM's metadata after a move: its own disks are on its present host, and no volume on this host
// is left over.
func (vm *VM) SettleMoved() {
	vm.Metadata.LeftVolumes = vm.LeftElsewhere()
	vm.Metadata.OwnDisks = maps.Clone(vm.Metadata.OwnDisks)

	for key, o := range vm.Metadata.OwnDisks {
		if !o.Creating && vm.HasFile(o.Path) {
			vm.Metadata.OwnDisks[key] = o.On(vm.HostUUID)
		}
	}
}

// Ran reports whether a guest has been running since the host's libvirt was started.
func (vm *VM) Ran() bool {
	return vm.Active || vm.State != libvirt.Shutoff || vm.Reason != forgotten && vm.Reason != "Failed"
}

// StartTried reports whether a user has started the VM, or has tried to, since the host's libvirt was started. After
// a start that failed it is unknown whether a guest ran before.
func (vm *VM) StartTried() bool { return vm.Ran() || vm.Reason != forgotten }

// NoteKept notes volumes that were left and that the operation which returns this VM couldn't remove, so that they
// stay recorded, and why these and other volumes were kept.
func (vm *VM) NoteKept(tried []domain.LeftVolume, why []string) {
	vm.TriedVolumes = append(slices.Clip(vm.TriedVolumes), tried...)
	vm.KeptDisks = append(slices.Clip(vm.KeptDisks), why...)
}

// LeftVolumes returns what is to be removed although no configuration names it: what RecordedLeft returns, and the
// volumes of Abandoned disks, on whichever host they were made, and what interrupted moves left.
func (vm *VM) LeftVolumes() []string {
	var own []domain.LeftVolume

	for key, o := range vm.Metadata.OwnDisks {
		if vm.Abandoned(key) {
			own = append(own, vm.AsLeft(o))
		}
	}

	left := slices.Concat(vm.RecordedLeft(), vm.shown(own), vm.shown(vm.Interrupted))
	slices.Sort(left)

	return slices.Compact(left)
}

// RecordedLeft returns what is recorded as left on other hosts and is to be removed: volumes of own disks, as
// "<host>: <pool>/<volume>", and originals of other disks, as "<host>: <path>". Hosts that did not answer are left out,
// and what was tried just now: whoever reads the VM next finds it.
func (vm *VM) RecordedLeft() []string { return vm.shown(vm.Metadata.LeftVolumes) }

func (vm *VM) shown(volumes []domain.LeftVolume) []string {
	var left []string

	for _, l := range volumes {
		tried := slices.ContainsFunc(vm.TriedVolumes, func(t domain.LeftVolume) bool {
			return t.HostUUID == l.HostUUID && t.Path == l.Path
		})
		if name := vm.Peers[l.HostUUID]; name != "" && !tried && !vm.Uses(l) {
			left = append(left, name+": "+l.Name())
		}
	}

	slices.Sort(left)

	return left
}

// AsLeft returns the volume of an own disk as one that is left on the host where it was made.
func (vm *VM) AsLeft(o domain.OwnDisk) domain.LeftVolume {
	return domain.LeftVolume{
		Host: cmp.Or(vm.Peers[o.HostUUID], o.HostUUID), HostUUID: o.HostUUID,
		Pool: o.Pool, Volume: o.Volume, Path: o.Path, Creating: o.Creating,
	}
}

// Abandoned reports whether the volume of an own disk is to be removed unless the disk is declared: an interrupted run
// began to create it or to remove it, and the VM doesn't have it. If the VM has another disk of that key, the volume
// may be its base: whoever changes the VM decides. A saved guest may have any disk that the VM had: only its memory
// image says so, which isn't read. Of first-boot media, it is a medium that couldn't be removed when another replaced
// it; LeftFirstBoot has those of a VM without one.
func (vm *VM) Abandoned(recorded string) bool {
	o := vm.Metadata.OwnDisks[recorded]
	if vm.HasFile(o.Path) || vm.ManagedSave {
		return false
	}

	if key, _, replaced := strings.Cut(recorded, "."); key == domain.MediumKey || key == domain.IgnitionKey {
		return replaced && vm.HasFile(vm.Metadata.OwnDisks[key].Path)
	}

	if !o.Creating && !o.Removing {
		return false
	}

	for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec != nil {
			if _, there := spec.Disks[recorded]; there {
				return false
			}
		}
	}

	return true
}

// peers returns the names of the hosts that answered, by their libvirt UUIDs.
func peers(answers []Reply) map[string]string {
	names := make(map[string]string, len(answers))

	for _, a := range answers {
		if a.Err == nil && a.Info != nil && !a.Fenced() {
			names[a.Info.UUID] = a.Host.Name
		}
	}

	return names
}
