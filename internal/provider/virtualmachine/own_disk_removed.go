package virtualmachine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// removedDisks returns the keys of the prior disks that are deleted with their data because they are no longer
// declared. The apply deletes those, and those that an earlier apply was to delete. While disks is unknown, the plan
// can't name them.
func removedDisks(declared, prior types.Map) []string { return disksRemoved(declared, prior, false) }

// disksRemoved is removedDisks. unsettled adds the disks that are deleted if a pool that isn't known yet turns out to
// be null.
func disksRemoved(declared, prior types.Map, unsettled bool) []string {
	return slices.DeleteFunc(disksDropped(declared, prior, unsettled), func(key string) bool {
		return isKept(open(elements(prior)[key]))
	})
}

func isKept(a object) bool { return text(a.string("on_destroy")) == domain.OnDestroyKeep }

// disksDropped returns the keys of the prior disks with a pool that are no longer declared, including those whose
// volumes are kept.
func disksDropped(declared, prior types.Map, unsettled bool) []string {
	if !isSet(declared) || len(ownDisks(prior)) == 0 {
		return nil
	}
	all, before := elements(declared), elements(withRenamed(declared, prior))
	stays := map[string]bool{} // by the path of the volume
	for key, disk := range all {
		a, was := open(disk), open(before[key])
		stays[volumePath(handedFrom(a))], stays[volumePath(handedOverFile(a, was))] = true, true
		if text(a.string("pool")) != "" || !unsettled && a.string("pool").IsUnknown() {
			stays[volumePath(text(was.string("path")))] = true
		}
	}
	var keys []string
	for _, key := range value.Keys(elements(prior)) {
		a := open(before[key])
		if text(a.string("pool")) != "" && !stays[volumePath(text(a.string("path")))] {
			keys = append(keys, key)
		}
	}
	return keys
}

// volumePath returns the path that libvirt gives the volume of a disk with that path.
func volumePath(at string) string { return domain.SourceAt(at).VolumePath() }

// warnRemoved warns about the disks that are deleted with their data, and about those that may be.
func (p planning) warnRemoved(existing map[string]object) (diags diag.Diagnostics) {
	prior := ownAmong(existing)
	if len(prior) == 0 {
		return nil
	}
	list := func(keys []string) string {
		var lines strings.Builder
		for _, key := range keys {
			fmt.Fprintf(&lines, "\n  - disks.%s: %s", key, text(existing[key].string("path")))
		}
		return lines.String()
	}
	removed := removedDisks(p.config.Disks, p.state.Disks)
	var may []string
	if p.config.Disks.IsUnknown() {
		for key, own := range prior {
			if !own.Kept() {
				may = append(may, key)
			}
		}
		slices.Sort(may)
	} else {
		may = slices.DeleteFunc(disksRemoved(p.config.Disks, p.state.Disks, true), func(key string) bool {
			return slices.Contains(removed, key)
		})
	}
	// What a snapshot or a user has put in the place of a disk isn't deleted, and neither is the disk's volume: the fleet
	// says so.
	replaced := func(key string) bool {
		made, known := p.own[key]
		return known && made.Path != volumePath(text(existing[key].string("path")))
	}
	may, removed = slices.DeleteFunc(may, replaced), slices.DeleteFunc(removed, replaced)
	name := text(p.state.Name)
	const keep = "\n\nTo keep their data, apply on_destroy = \"keep\" for them first."
	if len(may) > 0 {
		diags.AddAttributeWarning(path.Root("disks"), "Disks may be deleted with their data: "+name, fmt.Sprintf("Which "+
			"disks virtual machine %q declares with a pool is known only during the apply. It deletes those of these disks "+
			"that are then not declared:%s%s", name, list(may), keep))
	}
	switch {
	case len(removed) > 0 && p.saved:
		diags.AddAttributeWarning(path.Root("disks"), tfdiag.DisksKept, fmt.Sprintf("Virtual machine %q no longer declares "+
			"these disks, which were created with it. The apply keeps them, because the VM's memory is saved, and its guest "+
			"may use them. Once the guest has run again and the VM is off, the next apply deletes them with their data:%s%s",
			name, list(removed), keep))
	case len(removed) > 0:
		diags.AddAttributeWarning(path.Root("disks"), "Disks are deleted with their data: "+name, fmt.Sprintf("Virtual "+
			"machine %q no longer declares these disks, which were created with it, and the apply deletes them:%s%s To rename "+
			"a disk, change only its key, one disk at a time.", name, list(removed), keep))
	}
	return diags
}

// warnKept says where the disks are that are no longer declared and that are kept: no later plan looks for them, and a
// disk that gets the key again is a new one.
func (p planning) warnKept(existing map[string]object) (diags diag.Diagnostics) {
	list := ""
	for _, key := range disksDropped(p.config.Disks, p.state.Disks, false) {
		a, made := existing[key], p.own[key]
		if !isKept(a) {
			continue
		}
		list += fmt.Sprintf("\n  - disks.%s: %s", key, text(a.string("path")))
		if made.Volume != "" && made.Path == volumePath(text(a.string("path"))) {
			list += fmt.Sprintf(" (volume = %q)", made.Pool+"/"+made.Volume)
		}
	}
	for _, key := range p.unseenKept() {
		list += fmt.Sprintf("\n  - disks.%s: %s (volume = %q)", key, p.own[key].Path, p.own[key].Pool+"/"+p.own[key].Volume)
	}
	if list == "" {
		return nil
	}
	name := text(p.state.Name)
	diags.AddAttributeWarning(path.Root("disks"), tfdiag.DisksKept, fmt.Sprintf("Virtual machine "+
		"%q no longer declares these disks, which were created with it. Their on_destroy is \"keep\": the apply detaches "+
		"them, and they stay on host %q:%s\n\nTo use such a disk again, declare it with its volume, or file = "+
		"\"<its path>\", in place of pool and what belongs to pool. With pool, a disk is a new one, even under the same key.",
		name, text(p.state.CurrentHost), list))
	return diags
}

// unseenKept returns the keys of the disks that are kept, that an apply which failed has left in the definition alone,
// and that are not declared any more: the state doesn't have them.
func (p planning) unseenKept() (keys []string) {
	if !isSet(p.config.Disks) {
		return nil
	}
	declared := openAll(p.config.Disks)
	for _, key := range value.Keys(p.own) {
		own := p.own[key]
		unseen := slices.ContainsFunc(p.unseen, func(at string) bool { return strings.HasPrefix(at, "disks."+key+".") })
		_, stays := declared[key]
		for _, a := range declared {
			stays = stays || volumePath(handedFrom(a)) == own.Path
		}
		if unseen && own.Kept() && !own.Creating && !stays {
			keys = append(keys, key)
		}
	}
	return keys
}
