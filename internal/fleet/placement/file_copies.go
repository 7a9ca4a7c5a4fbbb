package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A disk's file may be on several hosts: a user moved its VM by hand, and the file that the VM has left is still
// there, older. A new VM without a host could start from either. Which of them has the data is for its owner to say, so
// no host is chosen then. If the configuration names the host, it has said so, perhaps long ago: that is a warning.
// Files of one size that were last written at the same time are copies, and don't count. Nor does a file that the hosts
// share.

// copiesDiffer returns the problem that the hosts have different files of one of the VM's disks; nil if they don't. A
// host counts even if it can't take the VM: it may have the data all the same. A host whose file can't be seen doesn't.
func (p *Scheduler) copiesDiffer(ctx context.Context, all []candidate, d Desired) *inventory.Problem {
	disks := d.writtenFiles()
	if d.Completes || len(disks) == 0 || !pinFits(all, d.Metadata.Host) {
		return nil
	}

	var hosts []*inventory.Host

	for _, c := range all {
		if c.Err == nil && !c.Fenced() {
			hosts = append(hosts, c.Host)
		}
	}

	if len(hosts) < 2 {
		return nil
	}

	slices.SortFunc(hosts, inventory.ByHostName)
	paths := slices.Compact(slices.Sorted(maps.Values(disks)))
	marks := make([]map[string]inventory.FileMark, len(hosts))

	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { marks[i] = p.hosts.FileMarks(ctx, h, paths) })
	}

	wg.Wait()

	for _, attribute := range slices.Sorted(maps.Keys(disks)) {
		file := disks[attribute]

		var having []fileCopy

		for i, h := range hosts {
			if m, there := marks[i][file]; there {
				having = append(having, fileCopy{h, m})
			}
		}

		pinned := d.Metadata.Host
		known := pinned == "" || slices.ContainsFunc(having, func(c fileCopy) bool { return c.on.Name == pinned })

		if known && p.differ(ctx, file, having) {
			return unclearCopy(d.Spec.Name, pinned, attribute, file, having)
		}
	}

	return nil
}

// pinFits reports whether the host that the configuration names can take the VM, if it names one. If that host can't,
// the plan is refused, and no warning is printed: then the hosts needn't be asked.
func pinFits(all []candidate, pinned string) bool {
	return pinned == "" || slices.ContainsFunc(all, func(c candidate) bool {
		return c.Host.Name == pinned && c.Err == nil && len(c.problems) == 0
	})
}

// fileCopy is the file that a host has at the path of a disk.
type fileCopy struct {
	on   *inventory.Host
	mark inventory.FileMark
}

// writtenFiles returns the files of disks that the VM writes to, by attribute. Those that are declared as shared are
// one file on all hosts, and those of transient disks stay as they are.
func (d Desired) writtenFiles() map[string]string {
	files := map[string]string{}

	for key, disk := range d.Spec.Disks {
		if disk.Device == "cdrom" || disk.Device == "floppy" || disk.ReadOnly != nil && *disk.ReadOnly ||
			disk.Values["shareable"] == "yes" || disk.Values["transient"] == "yes" ||
			slices.Contains(d.Metadata.SharedDisks, key) {
			continue
		}

		if file := d.Files["disks."+key+".file"]; isAskable(file) {
			files["disks."+key+".file"] = file
		}

		if file := d.Volumes[key]; isAskable(file) {
			files["disks."+key+".volume"] = file
		}
	}

	return files
}

// differ reports whether the hosts have different files.
func (p *Scheduler) differ(ctx context.Context, file string, all []fileCopy) bool {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if !a.mark.SameFile(b.mark) && !a.mark.Alike(b.mark) && !sharePool(ctx, file, a.on, b.on) {
				return true
			}
		}
	}

	return false
}

// sharePool reports whether storage pools of both hosts say that the file is one for all hosts.
func sharePool(ctx context.Context, file string, a, b *inventory.Host) bool {
	here, err := a.Conn.VolumeByPath(ctx, file)
	if err != nil {
		return false
	}

	there, err := b.Conn.VolumeByPath(ctx, file)

	return err == nil && here.PoolType == there.PoolType && storage.SameFiles(here.PoolType)
}

// unclearCopy returns the problem that a disk's file differs between hosts, a warning if the VM is pinned to a host.
func unclearCopy(vm, pinned, attribute, file string, having []fileCopy) *inventory.Problem {
	var lines strings.Builder
	for _, c := range having {
		fmt.Fprintf(&lines, "\n  - host %q: %s", c.on.Name, c.mark)
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
