package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A disk's file may be on several hosts: a user moved its VM by hand, and the file that the VM has left is still
// there, older. A new VM without a host could start from either. Which of them has the data is for its owner to say, so
// no host is chosen then. If the configuration names the host, it has said so, perhaps long ago: that is a warning.
// Files of one size that were last written at the same time are copies, and don't count. Nor does a file that the hosts
// share. A volume that is declared as "<pool>/<name>" is the file of that name in each host's pool. If it is new on
// several hosts, no guest has written to any of them, so they don't differ either.

// copiesDiffer returns the problem that the hosts have different files of one of the VM's disks; nil if they don't. A
// host counts even if it can't take the VM: it may have the data all the same. A host whose file can't be seen doesn't.
func (p *Scheduler) copiesDiffer(ctx context.Context, all []candidate, d Desired) *inventory.Problem {
	disks, pinned := d.writtenDisks(), d.Metadata.Host
	if d.Completes || len(disks) == 0 || !pinFits(all, pinned) {
		return nil
	}

	hosts := answering(all)
	if len(hosts) < 2 {
		return nil
	}

	on := make([]map[string]fileCopy, len(hosts))

	var wg sync.WaitGroup
	for i, c := range hosts {
		wg.Go(func() { on[i] = p.filesOn(ctx, c, d, disks) })
	}

	wg.Wait()

	for _, attribute := range slices.Sorted(maps.Keys(disks)) {
		var having []fileCopy

		for _, files := range on {
			if c, there := files[attribute]; there {
				having = append(having, c)
			}
		}

		known := pinned == "" || slices.ContainsFunc(having, func(c fileCopy) bool { return c.on.Name == pinned })

		if !known || !p.differ(ctx, having) {
			continue
		}

		if home := homeOf(all, d.Replaces); pinned != "" && home != pinned {
			two := slices.DeleteFunc(slices.Clone(having), func(c fileCopy) bool {
				return c.on.Name != home && c.on.Name != pinned
			})
			if p.differ(ctx, two) {
				return otherCopy(d.Spec.Name, home, pinned, attribute, two)
			}
		}

		return unclearCopy(d.Spec.Name, pinned, attribute, disks[attribute], having)
	}

	return nil
}

// homeOf returns the host where a VM runs, or else the only one that defines it; "" if there is none.
func homeOf(all []candidate, uuid string) string {
	var defined []string

	for _, c := range all {
		if c.Err != nil || c.View == nil || c.View.Domains[uuid] == nil {
			continue
		}

		if c.View.Domains[uuid].Active() {
			return c.Host.Name
		}

		defined = append(defined, c.Host.Name)
	}

	if len(defined) != 1 {
		return ""
	}

	return defined[0]
}

// answering returns the hosts that answered, in the order of their names.
func answering(all []candidate) []candidate {
	hosts := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.Err != nil || c.Fenced() })
	slices.SortFunc(hosts, func(a, b candidate) int { return inventory.ByHostName(a.Host, b.Host) })

	return hosts
}

// filesOn returns what a host has of the disks, by attribute. If the host can't take the VM, a volume that is a disk of
// another VM is left out: names of volumes are unique only on one host.
func (p *Scheduler) filesOn(
	ctx context.Context, c candidate, d Desired, disks map[string]string,
) map[string]fileCopy {
	a, paths := c.Reply, map[string]string{}
	files := map[string]fileCopy{}

	for attribute, disk := range disks {
		// Where the configuration wants both the volume and the VM, it is clear which file is meant.
		here := d.PlannedObjects.On(d.Metadata.Host, status.Volume, disk)
		if !here && d.PlannedObjects.On(a.Host.Name, status.Volume, disk) {
			files[attribute] = fileCopy{on: a.Host, at: disk, isNew: true}
		}

		file, device := d.diskOn(ctx, a, disk)
		others := len(c.problems) > 0 && file != disk && d.hasOtherUser(a.View, file)

		if !device && !others && isAskable(file) {
			paths[attribute] = file
		}
	}

	wanted := slices.Compact(slices.Sorted(maps.Values(paths)))

	var marks map[string]inventory.FileMark
	if d.Planned {
		marks = p.hosts.MarksInView(ctx, a, wanted)
	} else {
		marks = p.hosts.FileMarks(ctx, a.Host, wanted)
	}

	for attribute, file := range paths {
		if m, there := marks[file]; there {
			isNew := files[attribute].isNew || file != disks[attribute] && d.isFresh(file, m.Changed)
			files[attribute] = fileCopy{on: a.Host, at: file, mark: m, isNew: isNew}
		}
	}

	return files
}

// diskOn returns the path at which a host has a disk that is declared by a path or as "<pool>/<name>", if it has it,
// and whether that is a block device of this host alone. The path is "" if the host has no such pool of files or
// devices.
func (d Desired) diskOn(ctx context.Context, a inventory.Reply, disk string) (at string, device bool) {
	ref := storage.ParseRef(disk)
	if ref == nil {
		return disk, strings.HasPrefix(disk, "/dev/")
	}

	pool := poolNamed(ctx, a, ref.Pool, d.Planned)

	switch {
	case pool == nil || pool.Path == nil || storage.Protocol(pool.Type) != "":
		return "", false
	case pool.Directory() != "":
		return path.Join(pool.Directory(), ref.Name), false
	case storage.SharedType(pool.Type):
		return "", false
	default:
		return path.Join(*pool.Path, ref.Name), true
	}
}

// poolNamed returns a storage pool of the host, nil if there is none or that is unknown. In a plan, all pools are read
// once for all VMs.
func poolNamed(ctx context.Context, a inventory.Reply, name string, planned bool) *storage.Pool {
	var found *libvirt.StoragePool

	if planned && a.View != nil {
		all, err := a.View.StoragePools(ctx, a.Host)
		i := slices.IndexFunc(all, func(p libvirt.StoragePool) bool { return p.Name == name })

		if err != nil || i < 0 {
			return nil
		}

		found = &all[i]
	} else {
		var err error
		if found, err = a.Host.Conn.StoragePool(ctx, name); err != nil {
			return nil
		}
	}

	pool, err := storage.ReadPool(cmp.Or(found.LiveXML, found.XML))
	if err != nil {
		return nil
	}

	return pool
}

// hasOtherUser reports whether another VM of the host than the one that is replaced has the file as a disk.
func (d Desired) hasOtherUser(v *inventory.View, file string) bool {
	return v != nil && slices.ContainsFunc(v.Having(domain.DiskUse{Source: domain.DiskSource{File: file}}),
		func(e *inventory.Entry) bool { return e.UUID != d.Replaces })
}

// pinFits reports whether the host that the configuration names can take the VM, if it names one. If that host can't,
// the plan is refused, and no warning is printed: then the hosts needn't be asked.
func pinFits(all []candidate, pinned string) bool {
	return pinned == "" || slices.ContainsFunc(all, func(c candidate) bool {
		return c.Host.Name == pinned && c.Err == nil && len(c.problems) == 0
	})
}

// fileCopy is the file that a host has of a disk.
type fileCopy struct {
	on   *inventory.Host
	at   string
	mark inventory.FileMark
	// isNew says that no guest has written to it: it was just created, or will be.
	isNew bool
}

// String describes the file for users.
func (c fileCopy) String() string {
	if c.mark == (inventory.FileMark{}) {
		return "a new volume, which isn't created yet"
	}

	return c.mark.String()
}

// writtenDisks returns the paths, or "<pool>/<name>", of the disks that the VM writes to, by attribute. Those that are
// declared as shared are one on all hosts, and transient disks stay as they are.
func (d Desired) writtenDisks() map[string]string {
	disks := map[string]string{}

	for key, disk := range d.Spec.Disks {
		if disk.Device == "cdrom" || disk.Device == "floppy" || disk.ReadOnly != nil && *disk.ReadOnly ||
			disk.Values["shareable"] == "yes" || disk.Values["transient"] == "yes" ||
			slices.Contains(d.Metadata.SharedDisks, key) {
			continue
		}

		at := "disks." + key
		for attribute, is := range map[string]string{
			at + ".file": d.Files[at+".file"], at + ".block": d.Files[at+".block"], at + ".volume": d.Volumes[key],
		} {
			if is != "" {
				disks[attribute] = is
			}
		}
	}

	return disks
}

// differ reports whether the hosts have different files.
func (p *Scheduler) differ(ctx context.Context, all []fileCopy) bool {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if (!a.isNew || !b.isNew) && !a.mark.SameFile(b.mark) && !a.mark.Alike(b.mark) && !p.sharePool(ctx, a, b) {
				return true
			}
		}
	}

	return false
}

// sharePool reports whether storage pools of both hosts say that the file is one for all hosts.
func (p *Scheduler) sharePool(ctx context.Context, a, b fileCopy) bool {
	here, err := a.on.Conn.VolumeByPath(ctx, a.at)
	if err != nil {
		return false
	}

	there, err := b.on.Conn.VolumeByPath(ctx, b.at)
	if err != nil || here.PoolType != there.PoolType {
		return false
	}

	return storage.SameFiles(here.PoolType) ||
		here.Pool == there.Pool && p.records.Storage().SamePool(ctx, here.Pool, a.on.Name, b.on.Name)
}

// unclearCopy returns the problem that a disk's file differs between hosts, a warning if the VM is pinned to a host.
func unclearCopy(vm, pinned, attribute, file string, having []fileCopy) *inventory.Problem {
	var lines strings.Builder
	for _, c := range having {
		fmt.Fprintf(&lines, "\n  - host %q: %s", c.on.Name, c)
	}

	disk := strings.Split(attribute, ".")[1]

	if pinned != "" {
		return &inventory.Problem{
			Attribute: attribute, Warning: true, Summary: "Disks are used again: " + vm,
			Detail: fmt.Sprintf("VM %q is created on host %q, as host says, and its disk %q begins with what that host has in "+
				"%s. These hosts have different files there, and another than that may have what a guest wrote last, as after a "+
				"move by hand:%s", vm, pinned, disk, file, lines.String()),
			Remedy: "Find out which file has the data, and set host to its host.",
		}
	}

	return &inventory.Problem{
		Attribute: attribute, Summary: "No host can take the VM",
		Detail: fmt.Sprintf("VM %q names no host, and these hosts have different files for its disk %q, %s. One of them may "+
			"be an older one, which a move left there:%s", vm, disk, file, lines.String()),
		Remedy: fmt.Sprintf("Find out which file has the data, and set host to its host. Or remove the other files. If "+
			"the hosts share the file, set disks.%s.shared = true.", disk),
	}
}

// otherCopy returns the problem that a VM which is replaced has its disk's file on one host, and would get another file
// on the host that it is pinned to. The plan of a replaced VM can't show warnings, so it is an error.
func otherCopy(vm, home, pinned, attribute string, having []fileCopy) *inventory.Problem {
	lines := make([]string, len(having))
	for i, c := range having {
		lines[i] = fmt.Sprintf("\n  - host %q: %s", c.on.Name, c)
	}

	return &inventory.Problem{
		Attribute: attribute, Summary: "No host can take the VM",
		Detail: fmt.Sprintf("VM %q is on host %q, with what its guest has written. Replaced, it would be created on host "+
			"%q, as host says, where the disk %q is another file:%s", vm, home, pinned, strings.Split(attribute, ".")[1],
			strings.Join(lines, "")),
		Remedy: fmt.Sprintf("To keep what the guest has written, set host to %q, or move the VM first. To begin with the "+
			"other file, destroy the VM first, as a change of its own.", home),
	}
}
