package virtualmachine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// The blocks cloud_init and ignition have in common that a volume is created for them in a storage pool, and that the
// definition keeps a digest of what they declare.

// addFirstBootVolume adds the volume of a first-boot block to what the VM should have: it is created like an own disk.
// It returns false if the block isn't set, or if some of its values are still unknown.
func (m *model) addFirstBootVolume(d *fleet.Desired, key string, level attributes, block types.Object) bool {
	if !isSet(block) {
		return false
	}
	pool := m.firstBootPool(block)
	if !isSet(pool) {
		return false
	}
	d.OwnDisks = maps.Clone(d.OwnDisks)
	if d.OwnDisks == nil {
		d.OwnDisks = map[string]domain.OwnDisk{}
	}
	d.OwnDisks[key] = domain.OwnDisk{Pool: pool.ValueString(), Content: firstBootDigest(level, block)}
	if text(open(block).string("pool")) == "" {
		d.AnyPool = append(d.AnyPool, key)
	}
	return true
}

// firstBootDigest returns a digest of what is declared for a medium. It leaves write-only values out, because the
// definition keeps the digest. Attributes that aren't set don't count, so that the digest stays the same when a release
// of the provider has more of them.
func firstBootDigest(level attributes, o types.Object) string {
	a := open(o)
	var all strings.Builder
	for _, name := range value.Keys(level) {
		declared := text(a.string(name))
		if name != "pool" && declared != "" && !level[name].IsWriteOnly() {
			fmt.Fprintf(&all, "%s %q\n", name, declared)
		}
	}
	sum := sha256.Sum256([]byte(all.String()))
	return hex.EncodeToString(sum[:16])
}

// isFirstBoot reports whether a recorded volume is what a first-boot block declares.
func isFirstBoot(record domain.OwnDisk, level attributes, block types.Object) bool {
	pool := text(open(block).string("pool"))
	return !record.Creating && record.Content == firstBootDigest(level, block) && (pool == "" || pool == record.Pool)
}

// leftFirstBoot returns the block for a volume of a first-boot block that an apply is still to remove: only its pool is
// set, to "<pool>/<volume>". So the next plan shows the removal, also if the apply that was to remove the volume has
// failed. It is null if there is no volume, see fleet.VM.LeftFirstBoot.
func leftFirstBoot(volume string, level attributes) types.Object {
	kinds := objectType(level).AttrTypes
	if volume == "" {
		return types.ObjectNull(kinds)
	}
	a := make(map[string]attr.Value, len(level))
	for name := range level {
		a[name] = types.StringNull()
	}
	a["pool"] = types.StringValue(volume)
	return types.ObjectValueMust(kinds, a)
}

// isLeftFirstBoot reports whether a block is one of leftFirstBoot. No configuration has one: the name of a storage pool
// has no slash.
func isLeftFirstBoot(block types.Object) bool {
	return storage.ParseRef(text(open(block).string("pool"))) != nil
}

// firstBootPool returns the storage pool for a new volume of a first-boot block: the block's own pool, or else that of
// the disk that the VM boots from. It is null if neither is declared.
func (m *model) firstBootPool(block types.Object) types.String {
	a := open(block)
	if pool := a.string("pool"); pool.IsUnknown() || text(pool) != "" {
		return pool
	}
	if m.Disks.IsUnknown() {
		return types.StringUnknown()
	}
	disks := elements(m.Disks)
	order := func(key string) int64 {
		disk := open(disks[key])
		switch n := disk.int("boot_order"); {
		case isSet(n) && n.ValueInt64() > 0:
			return n.ValueInt64()
		case slices.Contains([]string{"", "disk"}, text(disk.string("device"))):
			return 1 << 30
		default: // Without an order, a VM boots from no CD-ROM.
			return 1<<30 + 1
		}
	}
	keys := value.Keys(disks)
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	for _, key := range keys {
		disk := open(disks[key])
		pool, volume := disk.string("pool"), disk.string("volume")
		switch ref := storage.ParseRef(text(volume)); {
		case disks[key].IsUnknown(), pool.IsUnknown(), volume.IsUnknown():
			return types.StringUnknown()
		case text(pool) != "":
			return pool
		case ref != nil:
			return types.StringValue(ref.Pool)
		}
	}
	return types.StringNull()
}

// validateFirstBootKeys returns an error for a disk whose key is that of a first-boot volume.
func (m *model) validateFirstBootKeys() (diags diag.Diagnostics) {
	disks := elements(m.Disks)
	for _, key := range []string{domain.MediumKey, domain.IgnitionKey} {
		if _, taken := disks[key]; taken {
			diags.Append(attrpath.Error(path.Root("disks").AtMapKey(key), invalid, fmt.Sprintf(
				"The name %q belongs to what is made for the first boot. Choose another one.", key)))
		}
	}
	return diags
}

// validateFirstBootPool returns an error if there is no storage pool for the block.
func (m *model) validateFirstBootPool(at path.Path, block types.Object) diag.Diagnostics {
	if !m.firstBootPool(block).IsNull() {
		return nil
	}
	return diag.Diagnostics{attrpath.Error(at.AtName("pool"), invalid, "The medium is a volume, and none of the "+
		"virtual machine's disks names a storage pool. Set pool to the storage pool that it is created in.")}
}

// problemText returns the text of a problem without its field.
func problemText(p firstboot.Problem) string {
	if p.Line > 0 {
		return fmt.Sprintf("Line %d: %s.", p.Line, p.Reason)
	}
	return strings.ToUpper(p.Reason[:1]) + p.Reason[1:] + "."
}
