package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// mediumReads is how often a VM is read again if each time another program has just asked its guest for the medium.
const mediumReads = 20

// awaitMedia reads the VM again once libvirt has finished what it does for an earlier update that was broken off. If
// that was to eject a medium, the running VM seems to lack the medium until its guest has refused, and may still read
// it. A VM that is to be off isn't waited for: its process may hang.
func (u *update) awaitMedia(ctx context.Context) error {
	for range mediumReads {
		if !u.vm.Active || !u.vm.LacksMedium() || u.powerAction() == status.Stop {
			return nil
		}

		err := u.vm.On.Conn.AwaitChanges(ctx, u.vm.UUID)
		if err == nil {
			err = u.refresh(ctx)
		}

		lacks := false
		if err == nil {
			lacks, err = u.lacksMedium(ctx)
		}

		if err != nil {
			return &inventory.Error{
				VM: u.vm.Name, Host: u.vm.Host, Err: err, Detail: "waiting for an earlier change of the running VM to end",
				Next: inventory.Retry,
			}
		}

		if lacks {
			return nil
		}
	}

	return nil
}

// lacksMedium reports whether the running VM lacks a first-boot medium also while libvirt changes nothing. Another
// program may have begun to eject the medium before the VM was read.
func (u *update) lacksMedium(ctx context.Context) (bool, error) {
	if !u.vm.Active || !u.vm.LacksMedium() {
		return false, nil
	}

	settled, err := u.vm.On.Conn.SettledDomain(ctx, u.vm.UUID)
	if err != nil || settled.LiveXML == "" {
		return true, err
	}

	live, err := domain.Parse(settled.LiveXML)
	if err != nil {
		return true, err
	}

	now := *u.vm
	now.LiveSpec = new(live.Spec())

	return now.LacksMedium(), nil
}

// keepRunning gives declared own disks that the VM's definition has lost, and that the running VM still has, the source
// that they have there: a user has detached them for the next start alone. The running VM then lacks nothing.
func (u *update) keepRunning() {
	if u.vm.LiveSpec == nil || u.vm.PersistentSpec == nil {
		return
	}

	for key := range u.want.OwnDisks {
		disk, declared := u.want.Spec.Disks[key]
		is, runs := u.vm.LiveSpec.Disks[key]
		_, defined := u.vm.PersistentSpec.Disks[key]

		if o := u.vm.Metadata.OwnDisks[key]; declared && runs && !defined && !o.Creating && o.Path != "" &&
			is.Source.VolumePath() == o.Path {
			disk.Source, disk.Format = is.Source, cmp.Or(disk.Format, is.Format)
			u.want.Spec.Disks[key] = disk
		}
	}
}

// addOwnDisks creates the own disks that the update adds. It records them first, so that an interrupted update leaves
// no volume without a record.
func (u *update) addOwnDisks(ctx context.Context) error {
	u.own = u.want.LostOr(placement.OwnDisks(u.vm))
	recovered := len(u.own) > len(u.vm.Metadata.OwnDisks)
	declared := u.want.Spec.Disks != nil || u.want.Spec.Medium != nil || u.want.Spec.Ignition != nil
	if !declared || len(u.own) == 0 && len(u.want.OwnDisks) == 0 {
		return nil
	}

	if err := u.recordArrivedDisks(ctx); err != nil {
		return err
	}

	marked := u.decideDropped(ctx)

	records, err := u.manager.creatorOf(u.vm).assignVolumes(ctx, &u.want, u.own, u.vm.DeclaredSpec().Disks)
	if err != nil {
		return err
	}

	metadata := u.vm.Metadata
	metadata.OwnDisks = maps.Clone(records)
	made := slices.DeleteFunc(beingMade(records), func(key string) bool {
		_, declared := u.want.OwnDisks[key]

		return !declared // An interrupted run began to create it. It is removed at the end.
	})
	renamed := !slices.Equal(slices.Sorted(maps.Keys(u.own)), slices.Sorted(maps.Keys(records)))
	u.own = records

	if (renamed || marked || recovered) && len(made) == 0 {
		return u.record(ctx, metadata)
	}

	if len(made) == 0 {
		return nil
	}

	if err := u.record(ctx, metadata); err != nil {
		return err
	}

	if err := u.manager.creatorOf(u.vm).makeOwnDisks(
		ctx, u.vm.Name, u.own, made, u.want.Spec.Disks, firstBootOf(u.want)); err != nil {
		return err
	}

	u.made = made

	// The mark is removed before a guest sees the disks, because a disk that is marked as being created may be created
	// again. The definition that gets the disks removes it: a run that is killed before leaves a disk that is known to
	// be left over.
	has := func(key string) bool { return u.vm.HasAtNextStart(u.own[key].Path) }
	if u.vm.Persistent && !slices.ContainsFunc(made, has) {
		return nil
	}

	metadata = u.vm.Metadata
	metadata.OwnDisks = maps.Clone(u.own)

	return u.record(ctx, metadata)
}

// madeIn returns the records of own disks without the marks of those that this update has created and the definition
// has.
func (u *update) madeIn(definition *domain.Definition, own map[string]domain.OwnDisk) map[string]domain.OwnDisk {
	own = maps.Clone(own)
	spec := definition.Spec()

	for _, key := range u.made {
		if o, recorded := own[key]; recorded && inventory.HasFile(&spec, o.Path) {
			o.Creating = false
			own[key] = o
		}
	}

	return own
}

// discardMade removes the own disks that this update has created and that the VM has neither now nor at its next start.
// Nothing else would: neither the definition nor the state has them. Until they are gone, they are recorded as being
// created.
func (u *update) discardMade(ctx context.Context) error {
	var all []error

	for _, key := range u.made {
		if o := u.own[key]; !u.vm.HasFile(o.Path) {
			all = append(all, u.discard(ctx, key, o))
		}
	}

	return errors.Join(all...)
}

func (u *update) discard(ctx context.Context, key string, o domain.OwnDisk) error {
	o.Creating = true
	metadata := u.vm.Metadata
	metadata.OwnDisks = withRecord(maps.Clone(metadata.OwnDisks), key, o)

	if err := u.record(ctx, metadata); err != nil {
		return err
	}

	if err := u.manager.releaseOwnDisk(ctx, u.vm.On, u.vm.UUID, key, o, true); err != nil {
		return fmt.Errorf("removing %s (%s/%s) again: %w", placement.OwnDiskTitle(key), o.Pool, o.Volume, err)
	}

	metadata = u.vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)
	delete(metadata.OwnDisks, key)

	for retired, was := range metadata.OwnDisks {
		if placement.IsFirstBoot(key) && strings.HasPrefix(retired, key+".") && u.vm.HasAtNextStart(was.Path) {
			metadata.OwnDisks[key] = was // The VM keeps the volume that this one was to replace.
			delete(metadata.OwnDisks, retired)
		}
	}

	return u.record(ctx, metadata)
}

// decideDropped decides about the own disks that are no longer declared, before the definition loses them. It marks
// those that are to be deleted, so that a later update deletes those that this one can't. Those that are kept, and that
// the VM doesn't have any more, lose their records. It reports whether a record changed.
func (u *update) decideDropped(ctx context.Context) (changed bool) {
	u.own = maps.Clone(u.own)
	deletes, keeps := u.want.DropsOwnDisks(u.vm)

	for _, key := range deletes {
		o := u.own[key]
		if placement.IsFirstBoot(key) || o.Creating {
			continue
		}

		// A run that is killed when it has deleted the file leaves an empty pool, if that was the last one.
		if o.HostUUID == u.vm.HostUUID {
			o.SeenIn = cmp.Or(u.manager.records.Storage().DirectoryWith(ctx, u.vm.Host, o.Path), o.SeenIn)
		}

		o.SeenIn = cmp.Or(placement.ImageOf(u.vm, o), o.SeenIn) // The definition that names its servers loses it.
		o.Removing = true
		changed = changed || o != u.own[key]
		u.own[key] = o
	}

	for _, key := range keeps {
		if !u.vm.HasFile(u.own[key].Path) {
			u.keep(key)

			changed = true
		}
	}

	return changed
}

// keep gives up an own disk, which stays on the host.
func (u *update) keep(key string) {
	u.kept = append(u.kept, placement.KeptOwnDisk(u.vm, key))
	delete(u.own, key)
}

// recordArrivedDisks records that the disks that moved with the VM, and are in its definition, are on this host now.
func (u *update) recordArrivedDisks(ctx context.Context) error {
	metadata := u.vm.Metadata
	metadata.OwnDisks = maps.Clone(u.own)

	for key, o := range u.own {
		if o.HostUUID != u.vm.HostUUID && u.vm.HasFile(o.Path) {
			metadata.OwnDisks[key] = o.On(u.vm.HostUUID)
		}
	}

	u.own = metadata.OwnDisks

	return u.record(ctx, metadata)
}

// record writes the metadata and reads the VM again.
func (u *update) record(ctx context.Context, metadata domain.Metadata) error {
	wrote, err := records.WriteMetadata(ctx, u.vm, metadata)
	if err != nil || !wrote {
		return err
	}

	return u.refresh(ctx)
}

// growOrDropOwnDisks grows own disks to their declared size, and removes those that are no longer declared.
func (u *update) growOrDropOwnDisks(ctx context.Context) error {
	if err := u.awaitMedia(ctx); err != nil { // Another program may have asked the guest meanwhile.
		return err
	}

	u.own = maps.Clone(u.own)

	for _, key := range slices.Sorted(maps.Keys(u.own)) {
		if !u.want.Declares(key) && !u.vm.Abandoned(key) {
			continue
		}

		want, stays := u.want.OwnDisks[key]

		var err error
		if stays {
			err = u.growOwnDisk(ctx, key, want.Bytes)
		} else {
			err = u.dropOwnDisk(ctx, key)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (u *update) growOwnDisk(ctx context.Context, key string, bytes uint64) error {
	o := u.own[key]
	if bytes == o.Bytes {
		return nil
	}

	if bytes > 0 {
		if why := placement.OtherCluster(ctx, u.vm.On, u.vm, o); why != "" {
			return &inventory.Error{
				VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrUnsupported,
				Detail:    fmt.Sprintf("disk %q can't grow: %s", key, why),
				Remedy:    fmt.Sprintf("Give storage pool %q the servers of the disk.", o.Pool),
				Attribute: placement.OwnDiskAttribute(key, "size"),
			}
		}

		hosts, err := u.manager.records.Storage().UserHosts(ctx, u.vm.Host, o.Pool)
		if err == nil {
			err = u.manager.records.Storage().Grow(ctx, storage.Growth{
				Host: u.vm.Host, Ref: storage.Ref{Pool: o.Pool, Name: o.Volume}, Bytes: bytes,
				Format: placement.UsedFormat(u.vm.DeclaredSpec(), o.Path), Preallocation: o.Preallocation, Hosts: hosts,
			})
		}

		if err != nil {
			return &inventory.Error{
				VM: u.vm.Name, Host: u.vm.Host, Err: err,
				Detail:    fmt.Sprintf("giving disk %q %s", key, domain.FormatSize(bytes)),
				Attribute: placement.OwnDiskAttribute(key, "size"),
			}
		}
	}

	o.Bytes = bytes
	u.own[key] = o

	return nil
}

// checkDisks returns an error if a disk can't change its form, or can't be removed, before anything is changed.
func (u *update) checkDisks(ctx context.Context) error {
	deletes, _ := u.want.DropsOwnDisks(u.vm)
	deletes = slices.DeleteFunc(deletes, u.vm.Abandoned) // The VM has lost these: whether they can go is seen at the end.

	if err := u.manager.placement.CheckRemovable(ctx, u.vm, deletes); err != nil {
		return err
	}

	if err := u.manager.checkUsersKnown(ctx, u.vm, deletes); err != nil {
		return err
	}

	u.want = u.manager.placement.WithoutGone(ctx, u.vm, u.want)

	problems := placement.CheckHanded(ctx, u.vm, u.want)
	if len(problems) == 0 {
		var err error

		problems, err = u.manager.placement.CheckDeclaredAgain(ctx, u.want.WithLost(u.vm), u.want)
		if err != nil || len(problems) == 0 {
			return err
		}
	}

	return problems[0].Failed(u.vm.Name, u.vm.Host, inventory.ErrInvalid)
}

// checkJobs returns an error if a job runs on a disk that is to be grown or removed while the VM runs: without this
// check, the definition would lose a disk that QEMU doesn't release.
func (u *update) checkJobs(ctx context.Context) error {
	if !u.vm.Active || u.goesDown() {
		return nil
	}

	for _, p := range placement.CheckDiskJobs(ctx, u.vm, u.want) {
		return p.Failed(u.vm.Name, u.vm.Host, inventory.ErrBusy)
	}

	return nil
}
