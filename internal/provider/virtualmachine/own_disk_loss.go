package virtualmachine

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// warnLost warns about the disks that are lost with their fenced host: a VM that is created again has new ones. If the
// VM was on another host when the state was written, a drain or a user may have moved it to the fenced one.
func (m *model) warnLost(fenced []string) diag.Diagnostics {
	host := text(m.CurrentHost)
	own := ownDisks(m.Disks)
	if len(own) == 0 || len(fenced) == 0 {
		return nil
	}
	name := text(m.Name)
	gone := fmt.Sprintf("Host %q, which had virtual machine %q last, is fenced: the VM is gone with it.", host, name)
	if !slices.Contains(fenced, host) {
		host = strings.Join(fenced, ", ")
		gone = fmt.Sprintf("Virtual machine %q is on none of the hosts that answer. It may have been moved to a host that "+
			"is fenced (%s): then it is gone with that host.", name, host)
	}
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(&lines, "\n  - %s (storage pool %s), %s", key, own[key].Pool, createdFrom(own[key]))
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("disks"), "Disks are lost with their host: "+name,
		fmt.Sprintf("%s Lost are these disks:%s\n\n%s\n\nWhat was on them is on the fenced host alone, unless its storage "+
			"pool is shared. Restore it from a backup. If the host may come back, remove fenced before anything is applied.",
			gone, lines.String(), newDisks))}
}

// newDisks says what is on the disks of a VM that is created again. The refresh that warns of them knows the state, but
// not the configuration.
const newDisks = "If the VM is created again, it has new disks in their place: each with the image that the plan " +
	"shows for it, also if ignore_changes had the lost disk keep another, or else empty."

// createdFrom says what an own disk was created with.
func createdFrom(o domain.OwnDisk) string {
	if o.Image != "" {
		return "created from image " + o.Image
	}
	return "created empty"
}

// warnMadeAnew warns about the own disks of a VM whose definition is gone, and whose last host isn't fenced. Their
// files may still be there, and a VM that is created again has new ones.
func (m *model) warnMadeAnew(fenced []string) diag.Diagnostics {
	host := text(m.CurrentHost)
	if slices.Contains(fenced, host) {
		return nil // warnLost says it.
	}
	var lines strings.Builder
	own, disks := ownDisks(m.Disks), elements(m.Disks)
	for _, key := range slices.Sorted(maps.Keys(own)) {
		if at := text(open(disks[key]).string("path")); at != "" {
			fmt.Fprintf(&lines, "\n  - %s: %s, %s", key, at, createdFrom(own[key]))
		}
	}
	if lines.Len() == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("disks"),
		"Disks will be created again: "+text(m.Name), fmt.Sprintf("No host has virtual machine %[1]q any more. What "+
			"was on its disks may still be in these files on host %[2]q, which had it last:%[3]s\n\n%[4]s\n\nTo keep the "+
			"data, before you apply: define the virtual machine again on that host from a copy of its XML (\"virsh "+
			"define\"). Or set host = %[2]q, and replace pool by file with these paths, or, in Ceph, by volume = "+
			"\"<pool>/<name>\"; a later apply can change that back to pool.", text(m.Name), host, lines.String(), newDisks))}
}

// warnReusedDisks warns about the files that a new VM uses as its disks in place of a VM that is gone. On the new VM's
// host, such a file may be an older one, which a move or a user left there.
func (m *model) warnReusedDisks() diag.Diagnostics {
	var lines strings.Builder
	disks := openAll(m.Disks)
	shared := sharedDisks(disks)
	for _, key := range slices.Sorted(maps.Keys(disks)) {
		a := disks[key]
		source := cmp.Or(text(a.string("file")), text(a.string("block")), text(a.string("volume")))
		rbd := domain.ParseRBDPath(text(a.string("path"))) != nil // All hosts have the same image.
		if source == "" || rbd || slices.Contains(shared, key) || a.bool("read_only").ValueBool() ||
			slices.Contains([]string{"cdrom", "floppy"}, text(a.string("device"))) {
			continue
		}
		fmt.Fprintf(&lines, "\n  - %s: %s", key, source)
	}
	if lines.Len() == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("disks"), "Disks are used again: "+text(m.Name),
		fmt.Sprintf("No host has virtual machine %q any more. Host %q had it last. If it is created again, its disks begin "+
			"with what the host that it is created on has there now:%s\n\nIf several hosts have such a file, that may be an "+
			"older one, which a move or a user left there. Find out where the newest is, and set host to that host before you "+
			"apply.", text(m.Name), text(m.CurrentHost), lines.String()))}
}

// strayDisks returns an error for each disk with a pool that the same apply moves to another directory or to other
// storage. The VM would keep the disk, but the pool wouldn't have it any more: it could neither grow nor be removed
// with the VM.
func (p planning) strayDisks(existing map[string]object) (diags diag.Diagnostics) {
	if p.poolChange == nil {
		return nil
	}
	for _, key := range value.Keys(existing) {
		disk := existing[key]
		pool, at := text(disk.string("pool")), text(disk.string("path"))
		if pool == "" || at == "" {
			continue
		}
		var planned, keep string
		// A guest may run on an overlay in another directory, which stays whatever becomes of the pool.
		switch change := p.poolChange(text(p.state.CurrentHost), pool); {
		case change.OtherStorage != "":
			planned, keep = "with "+change.OtherStorage, meta.OtherStorageRemedy(pool)
		case change.To != "" && filepath.Dir(at) == filepath.Clean(change.From):
			planned, keep = "in "+change.To, "Keep target.path, or create another pool."
		default:
			continue
		}
		diags.AddAttributeError(path.Root("disks").AtMapKey(key).AtName("pool"), "Storage pool leaves its volumes",
			fmt.Sprintf("Disk %q of virtual machine %q on host %q is at %s, and its storage pool %q is planned %s. What is in "+
				"a pool isn't moved with it: the disk couldn't grow, and a destroy of the virtual machine would leave it on the "+
				"host. %s\n\n%s", key, text(p.state.Name), text(p.state.CurrentHost), at, pool, planned, keep,
				tfdiag.DestroyAnyway))
	}
	return diags
}
