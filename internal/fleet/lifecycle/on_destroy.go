package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// keepOf maps the parts of a VM to what the undefine call is told about them.
var keepOf = map[string]libvirt.Kept{
	domain.PartNVRAM: libvirt.KeepNVRAM, domain.PartTPMState: libvirt.KeepTPM,
	domain.PartManagedSave: libvirt.KeepManagedSave, domain.PartSnapshots: libvirt.KeepSnapshots,
	domain.PartCheckpoints: libvirt.KeepCheckpoints,
}

// keepFlags returns what isn't removed with the VM's definition.
func keepFlags(vm *inventory.VM) []libvirt.Kept {
	var all []libvirt.Kept

	for _, part := range vm.Metadata.Kept {
		if flag, known := keepOf[part]; known {
			all = append(all, flag)
		}
	}

	return all
}

// keptVariables returns that the variables of the VM's firmware stay when its definition is removed, if on_destroy says
// so, or if another VM of the host has the same file.
func (m *Manager) keptVariables(ctx context.Context, vm *inventory.VM) []libvirt.Kept {
	if vm.Metadata.Keeps(domain.PartNVRAM) {
		return []libvirt.Kept{libvirt.KeepNVRAM}
	}

	switch other, file, err := m.sharesVariables(ctx, vm); {
	case err != nil:
		m.log.WarnContext(ctx, "the firmware's variables are kept: it is unknown whether another VM has them",
			"name", vm.Name, "host", vm.Host, "files", vm.Entry.NVRAMFiles(), "error", err.Error())

		return []libvirt.Kept{libvirt.KeepNVRAM}
	case other != "":
		m.log.WarnContext(ctx, "the firmware's variables are kept: another VM has the same file",
			"name", vm.Name, "host", vm.Host, "file", file, "other", other)

		return []libvirt.Kept{libvirt.KeepNVRAM}
	}

	return nil
}

// sharesVariables returns another VM of the host whose firmware keeps its variables in a file of this VM, and that
// file; "" if there is none.
func (m *Manager) sharesVariables(ctx context.Context, vm *inventory.VM) (other, file string, err error) {
	files := vm.Entry.NVRAMFiles()
	if len(files) == 0 {
		return "", "", nil
	}

	a, err := m.hosts.ReplyOf(ctx, vm.On)
	if err != nil {
		return "", "", err
	}

	e, file := a.View.WithNVRAM(files, vm.UUID)
	if e == nil {
		return "", "", nil
	}

	return e.Name, file, nil
}

// listed is a kind of things that libvirt lists for a domain, and removes only together with the domain's definition.
type listed struct {
	part string
	list func(ctx context.Context, uuid string) ([]string, error)
	// remove is the virsh command that removes one.
	remove string
}

func listedParts(vm *inventory.VM) []listed {
	return []listed{
		{domain.PartSnapshots, vm.On.Conn.Snapshots, "virsh snapshot-delete"},
		{domain.PartCheckpoints, checkpointNames(vm.On.Conn), "virsh checkpoint-delete"},
	}
}

// checkpointNames returns what lists the names of a domain's checkpoints on the host.
func checkpointNames(on *libvirt.Host) func(ctx context.Context, uuid string) ([]string, error) {
	return func(ctx context.Context, uuid string) ([]string, error) {
		checkpoints, err := on.Checkpoints(ctx, uuid)

		names := make([]string, len(checkpoints))
		for i, c := range checkpoints {
			names[i] = c.Name
		}

		return names, err
	}
}

// checkKept returns an error if the VM must not be deleted, or if its present host can't delete it without a part that
// must not be deleted.
func (m *Manager) checkKept(ctx context.Context, vm *inventory.VM) error {
	if err := checkUnprotected(vm); err != nil {
		return err
	}

	if vm.Metadata.Keeps(domain.PartTPMState) {
		a, err := m.hosts.ReplyOf(ctx, vm.On)
		if err != nil {
			return err
		}

		if !placement.KeepsTPMState(a.Info) {
			return &inventory.Error{
				VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
				Detail: "its libvirt, which is older than 8.9.0, can't keep the state of the TPM; nothing was removed",
				Remedy: "Move the VM to another host. Or first set on_destroy.tpm_state = \"delete\", as a change of its own.",
			}
		}
	}

	if vm.ManagedSave && vm.Metadata.Keeps(domain.PartManagedSave) {
		return notKept(vm, domain.PartManagedSave, "a managed save image (the guest's saved memory)",
			"Start the VM, which resumes the guest")
	}

	for _, p := range listedParts(vm) {
		if !vm.Metadata.Keeps(p.part) {
			continue
		}

		switch names, err := p.list(ctx, vm.UUID); {
		case err != nil:
			return err
		case len(names) > 0:
			return notKept(vm, p.part, p.part+" "+inventory.QuoteList(names), "Remove them with "+p.remove)
		}
	}

	return nil
}

// notKept returns the error for a VM with a part that must not be deleted, and that libvirt can't keep.
func notKept(vm *inventory.VM, part, what, other string) error {
	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
		Detail: fmt.Sprintf("it has %s, which libvirt can't keep without the VM, and on_destroy.%s is \"keep\"; nothing was "+
			"removed", what, part),
		Remedy: fmt.Sprintf("%s. Or first set on_destroy.%s = \"delete\", as a change of its own.", other, part),
	}
}

// Removal says in words what happens to the data of a VM that is deleted.
type Removal struct {
	// Deleted goes with the VM. Kept stays because on_destroy says so.
	Deleted, Kept []string
	// Media are the first-boot volumes that go with the VM. They have only what was declared.
	Media []string
	// Untouched are the disks that weren't created with the VM.
	Untouched []string
	// Aside are those of them that the VM has in place of the declared ones, as after a snapshot. A new VM with the same
	// declaration begins without what its guest wrote last.
	Aside []string
	// Shared stays because another VM has it, too.
	Shared []string
	// Lost was created with the VM and stays, because the VM's definition has lost it.
	Lost []string
	// Missing was created with the VM and isn't on its host, as after its definition alone was carried there, or after a
	// move that copied the overlay of a disk.
	Missing []string
	// Unclear says why Delete is expected to fail: it is unknown whether disks of other VMs are based on what is deleted.
	Unclear []string
}

// Removal returns what Delete would do with the data of the VM. lostDisks are the records of own disks that its
// definition has lost.
func (m *Manager) Removal(ctx context.Context, vm *inventory.VM, lostDisks map[string]domain.OwnDisk) Removal {
	spec := domain.Merge(vm.PersistentSpec, vm.LiveSpec, nil, nil)

	var r Removal

	missing := m.missingDisks(ctx, vm, spec)
	r.Untouched, r.Aside = otherDisks(vm, spec)
	m.addOwnDisks(ctx, &r, vm, spec, missing)
	r.Lost = m.lostVolumes(ctx, vm, lostDisks)
	r.Unclear = m.unclearUsers(ctx, vm, disksRemovedWithVM(vm, false))

	for _, volume := range vm.RecordedLeft() {
		r.Deleted = append(r.Deleted, "what an earlier run left on another host: "+volume)
	}

	switch {
	case !spec.HasNVRAM():
	case len(missing) > 0 && m.isMissing(ctx, vm, vm.Entry.NVRAMFiles()...):
		r.Missing = append(r.Missing, "the UEFI variables (NVRAM): "+strings.Join(vm.Entry.NVRAMFiles(), ", "))
	default:
		m.addVariables(ctx, &r, vm)
	}

	switch state := domain.TPMState(vm.UUID); {
	case !spec.EmulatesTPM():
	case len(missing) > 0 && m.isMissing(ctx, vm, state):
		r.Missing = append(r.Missing, "the state of the TPM: "+state)
	default:
		r.add(vm, domain.PartTPMState, "the state of the TPM",
			": without a recovery key, disks that it seals can't be read any more")
	}

	if vm.ManagedSave {
		r.add(vm, domain.PartManagedSave, "the guest's saved memory (managed save image)", "")
	}

	for _, p := range listedParts(vm) {
		switch names, err := p.list(ctx, vm.UUID); {
		case err != nil:
			r.Deleted = append(r.Deleted, fmt.Sprintf("the metadata of its %s, which can't be read: %v", p.part, err))
		case len(names) > 0:
			r.add(vm, p.part, fmt.Sprintf("the metadata of its %s %s", p.part, inventory.QuoteList(names)), "")
		}
	}

	return r
}

// addOwnDisks adds the disks and media that were created with the VM.
func (m *Manager) addOwnDisks(
	ctx context.Context, r *Removal, vm *inventory.VM, spec domain.Spec, missing map[string]bool,
) {
	removed, lost := disksRemovedWithVM(vm, false), losesElsewhere(vm)
	interrupted := m.placement.InterruptedDeletion(ctx, vm)

	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		o := vm.Metadata.OwnDisks[key]

		disk := "disks." + key + ": " + o.Path
		if placement.IsFirstBoot(key) {
			disk = placement.OwnDiskTitle(key) + ": " + o.Path
		}

		switch {
		case interrupted != nil && interrupted.Deleted[key] != "":
			r.Deleted = append(r.Deleted, disk+", which the interrupted deletion has deleted already")
		case slices.Contains(lost, key):
			why := "which an earlier run removed from the VM"
			if o.Creating {
				why = "which an interrupted run began to create"
			}

			r.Deleted = append(r.Deleted, fmt.Sprintf("%s on host %q, %s", disk, vm.AsLeft(o).Host, why))
		case !vm.OwnsHere(o) && placement.IsFirstBoot(key):
		case !vm.OwnsHere(o):
			// A move has copied the file that the VM used instead, such as an overlay.
			if now := spec.Disks[key].Source.Name(); now != "" {
				r.Aside = append(r.Aside, "disks."+key+": "+now)
			}

			r.Missing = append(r.Missing, disk+createdOn(vm, o))
			r.Missing = append(r.Missing, m.copiedFrom(ctx, vm, key, o, spec)...)
		case missing[key]:
			r.Missing = append(r.Missing, disk+createdOn(vm, o))
		case placement.IsFirstBoot(key):
			r.Media = append(r.Media, disk)
		case slices.Contains(removed, key):
			r.Deleted = append(r.Deleted, disk+whyNotUsed(vm, spec, key, o))
		default:
			r.Kept = append(r.Kept, disk+usedInstead(vm, spec, key, o))
		}
	}
}

// whyNotUsed says why the VM doesn't use the volume of an own disk that is deleted with it, "" if it does.
func whyNotUsed(vm *inventory.VM, spec domain.Spec, key string, o domain.OwnDisk) string {
	instead := usedInstead(vm, spec, key, o)

	switch {
	case vm.HasFile(o.Path):
		return ""
	case instead != "":
		return instead
	case o.Creating:
		return ", which an interrupted run began to create"
	case o.Removing:
		return ", which an earlier run removed from the VM"
	default:
		return ", which a user has detached from the VM"
	}
}

// otherDisks returns the disks that weren't created with the VM, as Removal has them.
func otherDisks(vm *inventory.VM, spec domain.Spec) (untouched, aside []string) {
	now := spec.AppliedSources()

	for _, key := range slices.Sorted(maps.Keys(spec.Disks)) {
		source := spec.Disks[key].Source.String()
		if _, own := vm.Metadata.OwnDisks[key]; own || source == "" {
			continue
		}

		if was := vm.Metadata.Applied[key]; was != "" && now[key] != was {
			aside = append(aside, fmt.Sprintf("disks.%s: %s, and %s, as it was declared, lacks that", key, source, was))

			continue
		}

		untouched = append(untouched, "disks."+key+": "+source)
	}

	return untouched, aside
}

// usedInstead says which file the VM uses in place of the volume of an own disk, "" for none.
func usedInstead(vm *inventory.VM, spec domain.Spec, key string, o domain.OwnDisk) string {
	now := spec.Disks[key].Source.Name()
	if now == "" || vm.HasFile(o.Path) {
		return ""
	}

	based := ", unless it is the base of another volume"
	if vm.IsElsewhere(key, o) || o.Kept() {
		based = ""
	}

	return fmt.Sprintf("%s; the VM's disk is %s now, which stays", based, now)
}

// lostVolumes returns the volumes that the VM's definition has lost and that aren't known to be gone, with the commands
// that delete them. Each is looked for on the host where it was made, which the VM may have left.
func (m *Manager) lostVolumes(
	ctx context.Context, vm *inventory.VM, lost map[string]domain.OwnDisk,
) (volumes []string) {
	for _, key := range slices.Sorted(maps.Keys(lost)) {
		o, doubt := lost[key], ", if it is still there"

		if at := vm.Peers[o.HostUUID]; at != "" {
			ref := storage.Ref{Pool: o.Pool, Name: o.Volume}

			gone, err := m.records.Storage().LooksGone(ctx, at, ref, o.Path, "")
			if gone {
				continue
			}

			if err == nil {
				doubt = ""
			}
		}

		volumes = append(volumes, fmt.Sprintf("%s: %s on host %q%s (\"virsh vol-delete --pool %s %s\" deletes it)",
			placement.OwnDiskTitle(key), o.Path, vm.AsLeft(o).Host, doubt, o.Pool, o.Volume))
	}

	return volumes
}

// addVariables adds the UEFI variables, as keptVariables decides about them.
func (m *Manager) addVariables(ctx context.Context, r *Removal, vm *inventory.VM) {
	const what = "the UEFI variables (NVRAM)"

	other, file, err := m.sharesVariables(ctx, vm)

	switch {
	case vm.Metadata.Keeps(domain.PartNVRAM) || err == nil && other == "":
		r.add(vm, domain.PartNVRAM, what, "")
	case err != nil:
		r.Shared = append(r.Shared, fmt.Sprintf("%s: whether another VM has them is unknown: %v", what, err))
	default:
		r.Shared = append(r.Shared, fmt.Sprintf("%s in %s, which VM %q has, too", what, file, other))
	}
}

// add adds a part to what is kept or deleted. consequence is that of deleting it.
func (r *Removal) add(vm *inventory.VM, part, what, consequence string) {
	if vm.Metadata.Keeps(part) {
		r.Kept = append(r.Kept, what)
	} else {
		r.Deleted = append(r.Deleted, what+consequence)
	}
}
