package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// Keys of the resource's private state: what a plan has to know and users don't need to see.
const (
	// privateLive is the definition of the running VM. It decides which changes are live.
	privateLive = "live"
	// privateImported says that the VM was imported, and the provider has written nothing to it since.
	privateImported = "imported"
	// privateOnlyRunning are the paths of the devices that a VM had only while it ran when it was imported, as long as it
	// runs with them.
	privateOnlyRunning = "only_running"
	// privateAgreed is what both definitions of the running VM said when they last agreed. It is set while they differ.
	privateAgreed = "agreed"
	// privateBeforeDrift is what the state said of the definition before someone changed it on the host. It is set until
	// an apply changes the VM, or the VM is again as it was. A plan without changes, because the new value was declared,
	// doesn't end it: going back then counts as drift.
	privateBeforeDrift = "before_drift"
	// privateUnseen are the paths of unfinished changes that the state doesn't show, see domain.TakenBack.
	privateUnseen = "unfinished"
	// privateDefined is what else the definition says and the state doesn't tell, a defined.
	privateDefined = "defined"
	// privateEvicted says why a VM that is off stays off.
	privateEvicted = "evicted"
	// privateEvicting says why a running VM will be taken off its host.
	privateEvicting = "evicting"
	// privateTransient says that no host had a definition of the VM when it was imported, and none has one now.
	privateTransient = "transient"
	// privateApplied are the sources that the disks had when this configuration was last applied, by key. The VM's
	// metadata, which privateRecorded has, isn't enough: another configuration may have changed it together with the
	// disk, and a snapshot or an old definition may have brought old values back. An import has only privateRecorded.
	privateApplied = "applied"
	// privateRecorded are the sources that were last applied by any configuration, as the VM's metadata has them.
	privateRecorded = "recorded_sources"
	// privateOwn are the records of the disks and media that were created with the VM, as its metadata had them last.
	// privateLost are those that its definition has lost since, see inventory.VM.Lost.
	privateOwn  = "own_disks"
	privateLost = "lost_disks"
	// privateElsewhere are the volumes of own disks in whose place the VM uses other files, see inventory.VM.Elsewhere.
	privateElsewhere = "disks_elsewhere"
	// privateUnsure are those of which that is unknown, see inventory.VM.MayBeElsewhere.
	privateUnsure = "disks_unsure"
	// privateSaved says that the VM resumes from saved memory when it is started.
	privateSaved = "saved"
	// privateSavedAs is the definition with which the memory was saved, as far as known. It is set while privateSaved is.
	privateSavedAs = "saved_as"
	// privateReplaced is the id of the planned VM. If Terraform then plans another VM in its place, it is the id of the
	// VM that is replaced. meta.Managed has the last known host of that VM.
	privateReplaced = "replaced"
	// privateDestroyedOff says that the VM was off when its destroy was planned.
	privateDestroyedOff = "destroyed_off"
	// privateDeletedInPart is what an interrupted destroy has left of the VM, a deletedInPart.
	privateDeletedInPart = "deleted_in_part"
)

// writeLive records the live definition, with the keys that the state uses for its devices.
func writeLive(ctx context.Context, to meta.PrivateWriter, vm *fleet.VM) diag.Diagnostics {
	if vm.LiveSpec == nil {
		return meta.WritePrivate(ctx, to, privateLive, nil)
	}
	return meta.WritePrivate(ctx, to, privateLive, domain.AlignKeys(vm.LiveSpec, vm.PersistentSpec))
}

// writeRecorded records the sources that the VM's metadata has.
func writeRecorded(ctx context.Context, to meta.PrivateWriter, vm *fleet.VM) diag.Diagnostics {
	if vm.Metadata.Applied == nil {
		return meta.WritePrivate(ctx, to, privateRecorded, nil)
	}
	return meta.WritePrivate(ctx, to, privateRecorded, vm.Metadata.Applied)
}

// writeOwn records the disks and media that were created with the VM. reverts says that what was recorded before, and
// isn't any more, was lost on the host: no apply of this configuration has removed it.
func writeOwn(ctx context.Context, private meta.Private, vm *fleet.VM, reverts bool) diag.Diagnostics {
	var before, lost map[string]domain.OwnDisk
	_, diags := meta.ReadPrivate(ctx, private, privateLost, &lost)
	if reverts {
		_, d := meta.ReadPrivate(ctx, private, privateOwn, &before)
		diags.Append(d...)
	}
	for key, own := range map[string]map[string]domain.OwnDisk{
		privateOwn: vm.Metadata.OwnDisks, privateLost: vm.Lost(before, lost),
	} {
		var v any
		if len(own) > 0 {
			v = own
		}
		diags.Append(meta.WritePrivate(ctx, private, key, v)...)
	}
	var elsewhere map[string]string
	_, d := meta.ReadPrivate(ctx, private, privateElsewhere, &elsewhere)
	diags.Append(d...)
	for key, files := range map[string]map[string]string{
		privateElsewhere: vm.Elsewhere(elsewhere), privateUnsure: vm.MayBeElsewhere(),
	} {
		var v any
		if len(files) > 0 {
			v = files
		}
		diags.Append(meta.WritePrivate(ctx, private, key, v)...)
	}
	return diags
}

// readPrivateSpec returns the definition that an entry has, and nil if there is none.
func readPrivateSpec(ctx context.Context, from meta.PrivateReader, key string) (*domain.Spec, diag.Diagnostics) {
	var spec domain.Spec
	found, diags := meta.ReadPrivate(ctx, from, key, &spec)
	if !found {
		return nil, diags
	}
	return &spec, diags
}

// writeSaved records whether the stopped VM resumes from saved memory, and with which definition: that of the VM when
// it was last seen running, or the one that is there when the saved memory is first seen. It reads what writeLive will
// overwrite.
func writeSaved(ctx context.Context, private meta.Private, vm *fleet.VM) diag.Diagnostics {
	if !vm.ManagedSave {
		diags := meta.WritePrivate(ctx, private, privateSaved, nil)
		diags.Append(meta.WritePrivate(ctx, private, privateSavedAs, nil)...)
		return diags
	}
	diags := meta.WritePrivate(ctx, private, privateSaved, true)
	before, d := readPrivateSpec(ctx, private, privateSavedAs)
	diags.Append(d...)
	if before != nil || vm.PersistentSpec == nil {
		return diags
	}
	saved, d := readPrivateSpec(ctx, private, privateLive)
	diags.Append(d...)
	if saved == nil {
		saved = vm.PersistentSpec
	}
	diags.Append(meta.WritePrivate(ctx, private, privateSavedAs, saved)...)
	return diags
}

// writeApplied records the sources that were applied. For a disk that an apply didn't reach, the earlier record stays.
func writeApplied(ctx context.Context, private meta.Private, now, plan *model) diag.Diagnostics {
	var before map[string]domain.DiskSource
	_, diags := meta.ReadPrivate(ctx, private, privateApplied, &before)
	planned := plan.spec(now).Disks
	applied := map[string]domain.DiskSource{}
	for key, disk := range now.spec(nil).Disks {
		if want, ok := planned[key]; ok && domain.SameImage(disk.Source, want.Source) {
			applied[key] = disk.Source
		} else if was, ok := before[key]; ok {
			applied[key] = was
		}
	}
	return append(diags, meta.WritePrivate(ctx, private, privateApplied, applied)...)
}
