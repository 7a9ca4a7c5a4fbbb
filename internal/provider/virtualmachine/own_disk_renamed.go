package virtualmachine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// diskShape is the shape of one disk.
var diskShape = attributeShape("disks", vmSchema.Attributes["disks"]).element

// renamedOwnDisks returns which declared own disks are existing ones under a new key: the VM's key by declared key. The
// apply does what this function says, see fleet.Desired. A disk is the same one if it is declared with the same pool,
// image and size, and no other disk is. Of several, it is the only one of which nothing else that is declared differs.
// Disks with different serial numbers are never the same.
func renamedOwnDisks(declared, prior types.Map) map[string]string {
	all, before := elements(declared), elements(prior)
	have, want := ownDisks(prior), ownDisks(declared)
	maps.DeleteFunc(want, func(key string, _ domain.OwnDisk) bool { return !isKnown(all[key]) })
	for key := range maps.Clone(want) {
		if _, there := have[key]; there {
			delete(have, key)
			delete(want, key)
		}
	}
	alike := func(from, to string) bool {
		a, b := have[from], want[to]
		return a.Pool == b.Pool && a.Image == b.Image && a.Based() == b.Based() && a.Bytes == b.Bytes
	}
	exact := func(from, to string) bool { return alike(from, to) && isDeclaredAs(all[to], before[from]) }
	renamed := map[string]string{}
	for _, same := range []func(from, to string) bool{exact, alike} {
		pairs := onlyPairs(value.Keys(have), value.Keys(want), same)
		maps.Copy(renamed, pairs)
		for to, from := range pairs {
			delete(have, from)
			delete(want, to)
		}
	}
	maps.DeleteFunc(renamed, func(to, from string) bool {
		_, stays := all[from]
		_, there := before[to]
		return stays || there || !maySerial(open(all[to]).string("serial"), open(before[from]).string("serial"))
	})
	return renamed
}

// onlyPairs returns the keys that belong together, those of the first list by those of the second: each of both is the
// only one that is the same as the other.
func onlyPairs(have, want []string, same func(from, to string) bool) map[string]string {
	pairs := map[string]string{}
	for _, to := range want {
		gone := slices.DeleteFunc(slices.Clone(have), func(from string) bool { return !same(from, to) })
		if len(gone) != 1 {
			continue
		}
		added := slices.DeleteFunc(slices.Clone(want), func(other string) bool { return !same(gone[0], other) })
		if len(added) == 1 {
			pairs[to] = gone[0]
		}
	}
	return pairs
}

// isDeclaredAs reports whether an existing disk is what the declaration would create, as far as the declaration says.
func isDeclaredAs(declared, prior types.Object) bool {
	if _, same := diskShape.planObject(declared, prior); !same {
		return false
	}
	a, was := open(declared), open(prior)
	for _, name := range []string{"serial", "boot_order"} {
		if a[name].IsNull() && !was[name].IsNull() && !isNothing(was[name]) {
			return false
		}
	}
	return !a["bus"].IsNull() || text(was.string("device")) != "disk" || text(was.string("bus")) == "virtio"
}

// maySerial reports whether a disk that has one serial number may be the one that is declared with the other. A number
// that isn't known yet may be any.
func maySerial(declared, has types.String) bool {
	return !declared.IsUnknown() &&
		(text(declared) == "" || text(has) == "" || sameMeaning("disks.*.serial", declared, has))
}

// withRenamed returns the prior disks, with renamed own disks under their new keys. Without it, a disk with a new key
// would be created again, and its data deleted.
func withRenamed(declared, prior types.Map) types.Map {
	before := elements(prior)
	if len(before) == 0 {
		return prior
	}
	renames := false
	for key, disk := range elements(declared) {
		if _, there := before[key]; !there {
			renames = renames || isKnown(disk)
		}
	}
	if !renames {
		return prior
	}
	for to, from := range renamedOwnDisks(declared, prior) {
		before[to] = before[from]
	}
	return mapOf(diskType, before)
}

// warnRenamed warns that disks with new keys are existing ones: the plan shows an old key that goes and a new one, as
// it does where a disk is deleted and another one created.
func (p planning) warnRenamed(existing map[string]object) (diags diag.Diagnostics) {
	if p.config.Disks.IsUnknown() {
		return nil
	}
	was := map[string]string{} // by path
	for key := range ownAmong(existing) {
		was[text(existing[key].string("path"))] = key
	}
	if len(was) == 0 {
		return nil
	}
	all, before, list := elements(p.config.Disks), elements(withRenamed(p.config.Disks, p.state.Disks)), ""
	for _, key := range value.Keys(all) {
		file := text(open(before[key]).string("path"))
		if from, own := was[file]; own && file != "" && from != key {
			list += fmt.Sprintf("\n  - disks.%s is disks.%s until now: %s", key, from, file)
		}
	}
	if list == "" {
		return nil
	}
	name := text(p.state.Name)
	diags.AddAttributeWarning(path.Root("disks"), "Disks get other keys: "+name, fmt.Sprintf("Virtual machine %q "+
		"declares disks under new keys, with the pool, image and size of disks that it no longer declares. They are the "+
		"same disks, and keep their data:%s\n\nTo have a new disk instead, apply the removal of the old one first.",
		name, list))
	return diags
}
