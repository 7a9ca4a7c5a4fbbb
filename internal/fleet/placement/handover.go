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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A disk may go from one VM to another only if its file stays: see storage.Handovers, which knows both changes.

// giveNew records the files that a new VM, or one that is replaced, is to have on one of the hosts. It returns a
// problem for each that the same run removes.
func (p *Scheduler) giveNew(ctx context.Context, d Desired, candidates []candidate) []inventory.Problem {
	var hosts []*inventory.Host

	for _, c := range candidates {
		if len(c.problems) == 0 {
			hosts = append(hosts, c.Host)
		}
	}

	return p.give(ctx, d, "", hosts, nil)
}

// giveMore is giveNew for a VM that gets more disks. The file of a disk that it has isn't removed.
func (p *Scheduler) giveMore(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	hosts := []*inventory.Host{vm.On}
	if pinned := p.hosts.Host(d.Metadata.Host); pinned != nil && pinned != vm.On {
		hosts = append(hosts, pinned)
	}

	return p.give(ctx, d, vm.UUID, hosts, vm)
}

func (p *Scheduler) give(
	ctx context.Context, d Desired, uuid string, hosts []*inventory.Host, have *inventory.VM,
) []inventory.Problem {
	var given []storage.Given

	for _, key := range slices.Sorted(maps.Keys(d.Spec.Disks)) {
		for _, h := range hosts {
			g, known := p.givenOn(ctx, h, d, key, have)
			if known && !hasPath(have, g.Path) {
				g.VM, g.UUID, g.Key, g.Hosts = d.Spec.Name, uuid, key, []string{h.Name}
				given = append(given, g)
			}
		}
	}

	var problems []inventory.Problem

	for _, c := range p.records.Storage().Handovers.Give(cmp.Or(uuid, "new VM "+d.Spec.Name), given) {
		problems = append(problems, inventory.Problem{
			Attribute: "disks." + c.Key, Summary: ownedSummary, Detail: c.Detail(), Remedy: c.Remedy(),
		})
	}

	return problems
}

// givenOn returns what a declared disk is on a host: the file or the volume that it uses, or the image that it will be
// made from.
func (p *Scheduler) givenOn(
	ctx context.Context, h *inventory.Host, d Desired, key string, have *inventory.VM,
) (g storage.Given, known bool) {
	if own, is := d.OwnDisks[key]; is {
		made := false
		if have != nil {
			is, there := d.RenamedOwnDisks(have)[key]
			made = there && !is.Creating
		}

		g.What, g.Ref = fmt.Sprintf("the image of disk %q", key), storage.ParseRef(own.Image)

		return g, !made && g.Ref != nil
	}

	g.What = fmt.Sprintf("disk %q", key)
	source := d.sourceOf(key)

	if id := d.Volumes[key]; id != "" && !strings.HasPrefix(id, "/") {
		g.Ref = storage.ParseRef(id)

		v, err := p.volume(ctx, h, d, id)
		if err != nil {
			return g, g.Ref != nil
		}

		source = domain.DiskSource{File: v.Path}
	}

	if source.File != domain.UnknownFile {
		g.Path = volumeAt(source)
	}

	return g, g.Path != "" || g.Ref != nil
}

// hasPath reports whether a VM has the disk already; nil has none.
func hasPath(vm *inventory.VM, at string) bool {
	if vm == nil || at == "" {
		return false
	}

	for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec == nil {
			continue
		}

		for _, disk := range spec.Disks {
			if volumeAt(disk.Source) == at {
				return true
			}
		}
	}

	return false
}

// volumeAt returns the path that libvirt gives the volume that a source is, "" for one that is no volume.
func volumeAt(source domain.DiskSource) string { return cmp.Or(source.VolumePath(), source.Block) }

// takeOwnDisks records the own disks that are deleted, with the VM or, if it stays, because it loses them. It returns
// those of them that another VM is to have.
func (p *Scheduler) takeOwnDisks(
	ctx context.Context, vm *inventory.VM, keys []string, stays bool,
) []storage.Conflict {
	var removals []storage.Removal

	for _, key := range keys {
		o := vm.Metadata.OwnDisks[key]
		if !vm.OwnsHere(o) || o.Creating || IsFirstBoot(key) {
			continue
		}

		r := storage.Removal{
			Hosts: []string{vm.Host}, Path: o.Path, Ref: storage.Ref{Pool: o.Pool, Name: o.Volume},
			What: fmt.Sprintf("disk %q of VM %q", key, vm.Name),
			Keep: fmt.Sprintf("set disks.%s.on_destroy = \"keep\" for VM %q, as a change of its own", key, vm.Name),
		}
		if stays {
			r.UUID = vm.UUID
		}

		if users, err := p.records.Storage().UserHosts(ctx, vm.Host, o.Pool); err == nil {
			r.Hosts = append(r.Hosts, users.Without(vm.Host).Names()...)
		}

		removals = append(removals, r)
	}

	return p.records.Storage().Handovers.Remove(vm.UUID, removals)
}

// CheckTaken returns an error if another VM is to have one of the own disks that are deleted with the VM.
func (p *Scheduler) CheckTaken(ctx context.Context, vm *inventory.VM, keys []string) error {
	for _, c := range p.takeOwnDisks(ctx, vm, keys, false) {
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrInvalid, Detail: c.Detail(), Remedy: c.Remedy(),
		}
	}

	return nil
}

// checkDropped returns a problem for each own disk that a change of the VM deletes, and that another VM is to have.
// What the guest may still use stays, so that it can be handed over.
func (p *Scheduler) checkDropped(
	ctx context.Context, vm *inventory.VM, d Desired, deletes []string,
) (problems []inventory.Problem) {
	if vm.ManagedSave {
		deletes = nil
	}

	deletes = slices.DeleteFunc(slices.Clone(deletes), func(key string) bool {
		return d.UpdatePolicy == PolicyStage && vm.HasFile(vm.Metadata.OwnDisks[key].Path)
	})

	for _, c := range p.takeOwnDisks(ctx, vm, deletes, true) {
		problems = append(problems, inventory.Problem{
			Attribute: "disks", Summary: ownedSummary, Detail: c.Detail(), Remedy: c.Remedy(),
		})
	}

	return problems
}
