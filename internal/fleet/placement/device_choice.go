package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// namesItself begins the paths of devices that are named by what they are: the hosts that have one share it.
const namesItself = "/dev/disk/by-id/"

// warnOfDevices returns a warning for each disk of a new VM without a host that is a block device, if several hosts
// have one of that path. Hosts name their devices alike, and a device says nothing of when it was written. So the hosts
// may have different ones, or share one: only its owner knows. chosen is the host where the VM would be created now.
func (p *Scheduler) warnOfDevices(
	ctx context.Context, all []candidate, d Desired, chosen *inventory.Host,
) (warnings []inventory.Problem) {
	disks := d.writtenDisks()
	if d.Completes || d.Metadata.Host != "" || len(disks) == 0 {
		return nil
	}

	hosts := answering(all)
	on := make([]map[string]bool, len(hosts))

	var wg sync.WaitGroup
	for i, a := range hosts {
		wg.Go(func() { on[i] = p.devicesOn(ctx, a.Reply, d, disks) })
	}

	wg.Wait()

	for _, attribute := range slices.Sorted(maps.Keys(disks)) {
		var having []string

		for i, a := range hosts {
			if on[i][attribute] {
				having = append(having, a.Host.Name)
			}
		}

		if !slices.Contains(having, chosen.Name) || len(having) < 2 {
			continue
		}

		disk := strings.Split(attribute, ".")[1]
		warnings = append(warnings, inventory.Problem{
			Attribute: attribute, Warning: true, Summary: "Disks are used again: " + d.Spec.Name,
			Detail: fmt.Sprintf("VM %q names no host, and hosts %s have a block device %s for its disk %q. They may be "+
				"different ones, which aren't compared. As things are now, the VM is created on host %q, and begins with what "+
				"that one has.", d.Spec.Name, inventory.QuoteList(having), disks[attribute], disk, chosen.Name),
			Remedy: fmt.Sprintf("Set host to the host whose device has the data. If the hosts share one device, set "+
				"disks.%s.shared = true.", disk),
		})
	}

	return warnings
}

// devicesOn returns which of the disks are block devices that a host has, by attribute.
func (p *Scheduler) devicesOn(
	ctx context.Context, a inventory.Reply, d Desired, disks map[string]string,
) map[string]bool {
	paths := map[string]string{}

	for attribute, disk := range disks {
		at, device := d.diskOn(ctx, a, disk)
		if (device || strings.HasSuffix(attribute, ".block")) && isAskable(at) && !strings.HasPrefix(at, namesItself) {
			paths[attribute] = at
		}
	}

	if len(paths) == 0 {
		return nil
	}

	there := p.hosts.FilesOn(ctx, a.Host, slices.Compact(slices.Sorted(maps.Values(paths))))
	has := make(map[string]bool, len(paths))

	for attribute, at := range paths {
		has[attribute] = there[at]
	}

	return has
}
