package virtualmachine

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// cloudInitName is the attribute's name.
const cloudInitName = "cloud_init"

// newMedium is what an apply does with a new write-only value.
const newMedium = "the medium is then created again"

// cloudInitAttributes are recorded by the provider alone: a definition names a medium, but not its content.
var cloudInitAttributes = attributes{
	"user_data": schema.StringAttribute{
		MarkdownDescription: "User data: `#cloud-config`, a script, a MIME multi-part message, ... It is stored in the " +
			"state; put passwords and keys into `user_data_wo`.",
		Optional: true,
	},
	"user_data_wo":         writeOnlyAttribute("user_data"),
	"user_data_wo_version": writeOnlyVersion("user_data", newMedium),
	"vendor_data": schema.StringAttribute{
		MarkdownDescription: "Like `user_data`, for defaults that user data overrides.", Optional: true,
	},
	"vendor_data_wo":         writeOnlyAttribute("vendor_data"),
	"vendor_data_wo_version": writeOnlyVersion("vendor_data", newMedium),
	"meta_data": schema.StringAttribute{
		MarkdownDescription: "YAML mapping, such as `local-hostname: web`. Without `local-hostname`, the hostname is " +
			"the VM's name, if that is valid.",
		Optional: true,
	},
	"meta_data_wo":         writeOnlyAttribute("meta_data"),
	"meta_data_wo_version": writeOnlyVersion("meta_data", newMedium),
	"network_config": schema.StringAttribute{
		MarkdownDescription: "YAML mapping with `version: 2` (as in netplan) or `version: 1`. Default: DHCP on the " +
			"first interface that the guest finds.",
		Optional: true,
	},
	"network_config_wo":         writeOnlyAttribute("network_config"),
	"network_config_wo_version": writeOnlyVersion("network_config", newMedium),
	"instance_id": schema.StringAttribute{
		MarkdownDescription: "Id of the instance. cloud-init configures a guest once for each id; a new id makes it " +
			"configure the guest again at the next boot. Default: the VM's `id`.",
		Optional: true,
	},
	"pool": schema.StringAttribute{
		MarkdownDescription: "Storage pool for the medium, of type `dir`, `fs` or `netfs`. An existing medium stays where " +
			"it is unless you set this. Default: the pool of the disk that the VM boots from, or of the next that is in a pool.",
		Optional: true,
	},
}

var cloudInitType = objectType(cloudInitAttributes)

func cloudInitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "First boot with cloud-init. The guest reads a medium that is created, moved and removed with " +
			"the VM. [Changes of it](../guides/first-boot.md#changes): adding the block requires a restart.",
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
		return &domain.DiskSource{File: domain.UnknownFile}
	case isSet(prior.CloudInit):
		return &domain.DiskSource{}
	default:
		return nil
	}
}

// withItsMedium returns the declared definition with the file of the VM's medium if that has what is declared. An
// observed definition names the file, and a declared one otherwise has a file that isn't known yet.
func (p planning) withItsMedium(want domain.Spec) domain.Spec {
	is, made := p.own[domain.MediumKey]
	if made && isSet(p.config.CloudInit) && isFirstBoot(is, cloudInitAttributes, p.config.CloudInit) {
		want.Medium = &domain.DiskSource{File: is.Path}
	}
	return want
}

// lostMediumDrive reports whether the change gives the running VM the drive of its medium, and the plan shows that. The
// state says that the VM hasn't the declared medium, see leftFirstBoot, but not that it lacks the drive.
func (p planning) lostMediumDrive(c domain.Change) bool {
	return c.Path == "disks."+domain.MediumKey && isSet(p.config.CloudInit) && isLeftFirstBoot(p.state.CloudInit)
}

// instance returns the instance ID that cloud-init reads from the medium of the VM with that id. It reports false if
// the ID isn't known, as with meta data that is write-only.
func (m *model) instance(id types.String) (string, bool) {
	a := open(m.CloudInit)
	seed := firstboot.NoCloud{InstanceID: text(a.string("instance_id")), MetaData: text(a.string("meta_data"))}
	isSecret := !a.string("meta_data_wo").IsNull() || !a.string("meta_data_wo_version").IsNull()
	if a.string("instance_id").IsUnknown() ||
		seed.InstanceID == "" && (a.string("meta_data").IsUnknown() || isSecret) {
		return "", false
	}
	return seed.OrInstanceID(text(id)).Instance(), true
}

// warnAboutInstance warns if the medium gets another instance ID: cloud-init then takes the guest for a new one.
func (p planning) warnAboutInstance(o *outcome) {
	if !isSet(p.config.CloudInit) || !isSet(p.state.CloudInit) || isLeftFirstBoot(p.state.CloudInit) {
		return
	}
	was, known := p.state.instance(p.state.ID)
	is, isKnown := p.config.instance(p.state.ID)
	if !known || !isKnown || was == is {
		return
	}
	o.diags.AddAttributeWarning(path.Root("cloud_init").AtName("instance_id"), "Guest runs its first boot again",
		fmt.Sprintf("The instance ID of VM %q changes from %q to %q. At its next boot, cloud-init takes the guest for a new "+
			"one: it runs all of the user data again, and creates new SSH host keys unless the user data has "+
			"ssh_deletekeys: false.\n\nTo avoid that, keep the ID.", text(p.state.Name), was, is))
}

// cloudInitToFleet adds the medium to what the VM should have.
func (m *model) cloudInitToFleet(d *fleet.Desired) {
	if m.addFirstBootVolume(d, domain.MediumKey, cloudInitAttributes, m.CloudInit) {
		seed := m.cloudInit()
		d.CloudInit = &seed
	}
}

// cloudInit returns the content of the medium, as far as it is known.
func (m *model) cloudInit() firstboot.NoCloud {
	a := open(m.CloudInit)
	either := func(name string) string { return plainOrWriteOnly(a, name) }
	return firstboot.NoCloud{
		InstanceID: text(a.string("instance_id")), Hostname: hostname(text(m.Name)),
		UserData: either("user_data"), VendorData: either("vendor_data"), NetworkConfig: either("network_config"),
		MetaData: either("meta_data"),
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

// cloudInitFromFleet returns the prior block if the VM still has that medium, according to its metadata and its drive.
// Otherwise it returns what is left of it, and the next apply inserts the medium again, or removes it. If no block was
// declared, a medium that the VM has at its next start is another's, as that of an imported VM. merged is what the VM
// is like if its definitions differ: it has a drive that a running VM is to get at its next start, and lacks one that
// someone has detached from it.
func cloudInitFromFleet(vm *fleet.VM, merged domain.Spec, prior types.Object) types.Object {
	record, made := vm.Metadata.OwnDisks[domain.MediumKey]
	is := made && isFirstBoot(record, cloudInitAttributes, prior)
	_, kept := merged.Disks[domain.MediumKey]
	for i, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec == nil {
			continue
		}
		drive, there := spec.Disks[domain.MediumKey]
		staged := i == 1 && !there && kept
		is = is && (drive.Source.File == record.Path || staged)
	}
	switch {
	case prior.IsUnknown():
		return types.ObjectNull(cloudInitType.AttrTypes)
	case prior.IsNull():
		return leftFirstBoot(vm.LeftFirstBoot(domain.MediumKey, vm.DeclaredSpec()), cloudInitAttributes)
	case !is:
		return leftFirstBoot(vm.LeftFirstBoot(domain.MediumKey), cloudInitAttributes)
	default:
		return prior
	}
}

// validateCloudInit checks the content of a first-boot medium. Unknown values are checked once they are known.
func (m *model) validateCloudInit() diag.Diagnostics {
	if !isSet(m.CloudInit) {
		return nil
	}
	at, a := path.Root(cloudInitName), open(m.CloudInit)
	diags := validateWriteOnly(at, cloudInitAttributes, a)
	for _, problem := range m.cloudInit().Validate() {
		where := at
		if problem.Field != "" {
			where = at.AtName(declaredAs(a, problem.Field))
		}
		diags.Append(attrpath.Error(where, invalid, problemText(problem)))
	}
	return append(diags, m.validateFirstBootPool(at, m.CloudInit)...)
}
