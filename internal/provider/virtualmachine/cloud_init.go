package virtualmachine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// cloudInitName is the attribute's name.
const cloudInitName = "cloud_init"

// writeOnlySuffix ends the name of an attribute whose value is in no state and no plan.
const writeOnlySuffix = "_wo"

// cloudInitAttributes are recorded by the provider alone: a definition names a medium, but not its content.
var cloudInitAttributes = attributes{
	"user_data": schema.StringAttribute{
		MarkdownDescription: "User data: `#cloud-config`, a script, a MIME multi-part message, ... It is stored in the " +
			"state; put passwords and keys into `user_data_wo`.",
		Optional: true,
	},
	"user_data_wo": writeOnlyAttribute("user_data"),
	"vendor_data": schema.StringAttribute{
		MarkdownDescription: "Like `user_data`, for defaults that user data overrides.", Optional: true,
	},
	"vendor_data_wo": writeOnlyAttribute("vendor_data"),
	"meta_data": schema.StringAttribute{
		MarkdownDescription: "YAML mapping, such as `local-hostname: web`. Without `local-hostname`, the hostname is " +
			"the VM's name, if that is valid.",
		Optional: true,
	},
	"network_config": schema.StringAttribute{
		MarkdownDescription: "YAML mapping with `version: 2` (as in netplan) or `version: 1`. Default: DHCP on the " +
			"first interface that the guest finds.",
		Optional: true,
	},
	"network_config_wo": writeOnlyAttribute("network_config"),
	"instance_id": schema.StringAttribute{
		MarkdownDescription: "Id of the instance. cloud-init configures a guest once for each id; a new id makes it " +
			"configure the guest again at the next boot. Default: the VM's `id`.",
		Optional: true,
	},
	"wo_version": schema.StringAttribute{
		MarkdownDescription: "Any text, such as `1`. Change it when an attribute that ends in `_wo` changes, because " +
			"Terraform can't see that; the medium is then created again. Required with these attributes.",
		Optional: true,
	},
	"pool": schema.StringAttribute{
		MarkdownDescription: "Storage pool for the medium, of type `dir`, `fs` or `netfs`. Default: the pool of the disk " +
			"that the VM boots from, or of the next that is in a pool.",
		Optional: true,
	},
}

var cloudInitType = objectType(cloudInitAttributes)

// writeOnlyAttribute returns the write-only counterpart of the attribute of that name.
func writeOnlyAttribute(name string) schema.StringAttribute {
	return writeOnly(fmt.Sprintf("Like `%s`, but written only to the host, neither to the state nor to the plan. Set at "+
		"most one of the two.", name))
}

func writeOnly(description string) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true, WriteOnly: true, Sensitive: true,
	}
}

func cloudInitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "First boot with cloud-init. The guest reads a medium that is created, moved and removed with " +
			"the VM. Adding `cloud_init` to an existing VM requires a restart. See [First " +
			"boot](../guides/first-boot.md#changes) for what a change does.",
		Attributes: cloudInitAttributes,
		CustomType: cloudInitType,
		Optional:   true,
	}
}

// declaredMedium returns the declared content of the first-boot medium's drive: a new medium, no medium if it was
// removed, or nil if nothing is declared.
func (m *model) declaredMedium(prior *model) *domain.DiskSource {
	switch {
	case m.CloudInit.IsUnknown(), isSet(m.CloudInit):
		return &domain.DiskSource{File: unknownSource}
	case isSet(prior.CloudInit):
		return &domain.DiskSource{}
	default:
		return nil
	}
}

// cloudInitToFleet adds the medium to what the VM should have.
func (m *model) cloudInitToFleet(d *fleet.Desired) {
	if !isSet(m.CloudInit) {
		return
	}
	pool := m.firstBootPool(m.CloudInit)
	if !isSet(pool) {
		return // Some values are still unknown.
	}
	seed := m.cloudInit()
	d.CloudInit = &seed
	makeFirstBoot(d, domain.MediumKey, pool, firstBootDigest(cloudInitAttributes, m.CloudInit))
}

// makeFirstBoot adds a volume that is created like an own disk.
func makeFirstBoot(d *fleet.Desired, key string, pool types.String, digest string) {
	d.OwnDisks = maps.Clone(d.OwnDisks)
	if d.OwnDisks == nil {
		d.OwnDisks = map[string]domain.OwnDisk{}
	}
	d.OwnDisks[key] = domain.OwnDisk{Pool: pool.ValueString(), Content: digest}
}

// cloudInit returns the content of the medium, as far as it is known.
func (m *model) cloudInit() firstboot.NoCloud {
	a := open(m.CloudInit)
	either := func(name string) string { return text(a.string(name)) + text(a.string(name+writeOnlySuffix)) }
	return firstboot.NoCloud{
		InstanceID: text(a.string("instance_id")), Hostname: hostname(text(m.Name)),
		UserData: either("user_data"), VendorData: either("vendor_data"), NetworkConfig: either("network_config"),
		MetaData: text(a.string("meta_data")),
	}
}

// hostLabel is a label of a hostname.
const hostLabel = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`

var hostnamePattern = regexp.MustCompile(`^` + hostLabel + `(\.` + hostLabel + `)*$`)

// hostname returns the VM's name if it is a valid hostname, and "" otherwise.
func hostname(name string) string {
	if len(name) > 253 || !hostnamePattern.MatchString(name) {
		return ""
	}
	return name
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

// firstBootPool returns the storage pool for a first-boot block: the block's own pool, or else that of the disk that
// the VM boots from. It is null if neither is declared.
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
		if n := open(disks[key]).int("boot_order"); isSet(n) && n.ValueInt64() > 0 {
			return n.ValueInt64()
		}
		return 1 << 30
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

// cloudInitFromFleet returns the prior block if the VM still has that medium, according to its metadata and its drive.
// Otherwise it returns null, and the next apply inserts the medium again.
func cloudInitFromFleet(vm *fleet.VM, prior types.Object) types.Object {
	record, made := vm.Metadata.OwnDisks[domain.MediumKey]
	is := made && !record.Creating && record.Content == firstBootDigest(cloudInitAttributes, prior)
	for i, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec == nil {
			continue
		}
		drive, there := spec.Disks[domain.MediumKey]
		staged := i == 1 && !there && vm.PersistentSpec != nil
		is = is && (drive.Source.File == record.Path || staged)
	}
	if !is || prior.IsUnknown() {
		return types.ObjectNull(cloudInitType.AttrTypes)
	}
	return prior
}

// withoutWriteOnly returns the declared values without the write-only ones, as plan and state have them.
func withoutWriteOnly(o types.Object, level attributes) types.Object {
	a := open(o)
	if a == nil {
		return o
	}
	for name, attribute := range level {
		if attribute.IsWriteOnly() {
			a[name] = types.StringNull()
		}
	}
	return types.ObjectValueMust(attributeTypes(o), a)
}

// validateCloudInit checks the content of a first-boot medium. Unknown values are checked once they are known.
func (m *model) validateCloudInit() diag.Diagnostics {
	var diags diag.Diagnostics
	at := path.Root(cloudInitName)
	disks := elements(m.Disks)
	for _, key := range []string{domain.MediumKey, domain.IgnitionKey} {
		if _, taken := disks[key]; taken {
			diags.Append(attrpath.Error(path.Root("disks").AtMapKey(key), invalid, fmt.Sprintf(
				"The name %q belongs to what is made for the first boot. Choose another one.", key)))
		}
	}
	if !isSet(m.CloudInit) {
		return diags
	}
	a := open(m.CloudInit)
	diags.Append(validateWriteOnly(at, cloudInitAttributes, a)...)
	for _, problem := range m.cloudInit().Validate() {
		where := at
		if problem.Field != "" {
			name := problem.Field
			if v := a[name+writeOnlySuffix]; v != nil && !v.IsNull() {
				name += writeOnlySuffix
			}
			where = at.AtName(name)
		}
		diags.Append(attrpath.Error(where, invalid, problemText(problem)))
	}
	return append(diags, m.validateFirstBootPool(at, m.CloudInit)...)
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

// validateWriteOnly checks that each value is declared in only one way, and that a change of a write-only value can be
// detected. Unknown values pass, because they may turn out to be null.
func validateWriteOnly(at path.Path, level attributes, a object) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, name := range value.Keys(level) {
		v := a[name]
		if !level[name].IsWriteOnly() || !isSet(v) {
			continue
		}
		plain := strings.TrimSuffix(name, writeOnlySuffix)
		if isSet(a[plain]) {
			diags.Append(attrpath.Error(at.AtName(name), invalid, fmt.Sprintf(
				"Only one of %s and %s can be set.", plain, name)))
		}
		if version := a.string("wo_version"); !version.IsUnknown() && text(version) == "" {
			diags.Append(attrpath.Error(at.AtName("wo_version"), invalid, fmt.Sprintf("It is required with %s: a new "+
				"wo_version is what tells that the value changes.", name)))
		}
	}
	return diags
}
