package host

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// singularModel is the data source's state.
type singularModel struct {
	Name types.String `tfsdk:"name"`
	Question
	Model
}

// Model is what is read of a host, in the order of Attributes.
type Model struct {
	URI               types.String `tfsdk:"uri"`
	Labels            types.Map    `tfsdk:"labels"`
	Schedulable       types.Bool   `tfsdk:"schedulable"`
	Fenced            types.Bool   `tfsdk:"fenced"`
	Reachable         types.Bool   `tfsdk:"reachable"`
	Error             types.String `tfsdk:"error"`
	UUID              types.String `tfsdk:"uuid"`
	Hostname          types.String `tfsdk:"hostname"`
	Driver            types.String `tfsdk:"driver"`
	LibvirtVersion    types.String `tfsdk:"libvirt_version"`
	HypervisorVersion types.String `tfsdk:"hypervisor_version"`
	Arch              types.String `tfsdk:"arch"`
	CPUModel          types.String `tfsdk:"cpu_model"`
	Guests            types.Map    `tfsdk:"guests"`
	Networks          types.List   `tfsdk:"networks"`
	CPUs              types.Int64  `tfsdk:"cpus"`
	MemoryBytes       types.Int64  `tfsdk:"memory_bytes"`
	MemoryLimitBytes  types.Int64  `tfsdk:"memory_limit_bytes"`
	CommittedBytes    types.Int64  `tfsdk:"committed_memory_bytes"`
	FreeBytes         types.Int64  `tfsdk:"free_memory_bytes"`
	VMCount           types.Int64  `tfsdk:"virtual_machine_count"`
	ActiveVMCount     types.Int64  `tfsdk:"active_virtual_machine_count"`

	Cordoned    *bool             `tfsdk:"cordoned"`
	Cordon      *cordon           `tfsdk:"cordon"`
	Unavailable map[string]string `tfsdk:"unavailable"`
	details
}

// cordon is the mark that keeps VMs off the host.
type cordon struct {
	Owner  string  `tfsdk:"owner"`
	Since  *string `tfsdk:"since"`
	Reason string  `tfsdk:"reason"`
}

// guestModel is one element of guests.
type guestModel struct {
	DomainTypes  types.List `tfsdk:"domain_types"`
	MachineTypes types.List `tfsdk:"machine_types"`
}

// guestType is the type of an element of guests.
var guestType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"domain_types":  types.ListType{ElemType: types.StringType},
	"machine_types": types.ListType{ElemType: types.StringType},
}}

// FromStatus maps the fleet's facts about a host.
func FromStatus(ctx context.Context, s observe.HostStatus) (Model, diag.Diagnostics) {
	labels := s.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	m := Model{
		URI:         types.StringValue(s.URI),
		Labels:      value.NewStringMap(labels),
		Schedulable: types.BoolValue(s.Schedulable),
		Fenced:      types.BoolValue(s.Fenced),
		Reachable:   types.BoolValue(s.Info != nil && s.Err == nil),
		Guests:      types.MapNull(guestType),
		Networks:    value.NewStringList(nil),
	}
	if s.Err != nil {
		m.Error = types.StringValue(s.Err.Error())
	}
	if s.Info == nil {
		return m, nil
	}
	m.UUID = value.NewStringOrNull(s.Info.UUID)
	m.Hostname = value.NewStringOrNull(s.Info.Hostname)
	m.Driver = value.NewStringOrNull(s.Info.Driver)
	m.LibvirtVersion = versionOrNull(s.Info.LibvirtVersion)
	m.HypervisorVersion = versionOrNull(s.Info.HypervisorVersion)
	m.Arch = value.NewStringOrNull(s.Info.Arch)
	m.CPUModel = value.NewStringOrNull(s.Info.CPUModel)
	m.CPUs = types.Int64Value(int64(s.Info.CPUs))
	m.MemoryBytes = memoryNumber(s.Info.MemoryBytes)
	m.MemoryLimitBytes = memoryNumber(s.MemoryLimit)
	m.CommittedBytes = memoryNumber(s.CommittedMemory)
	m.FreeBytes = memoryNumber(s.FreeMemory)
	m.VMCount = types.Int64Value(int64(s.Domains))
	m.ActiveVMCount = types.Int64Value(int64(s.ActiveDomains))
	m.details = fromDetails(s)
	m.Unavailable = s.Unavailable
	if _, unknown := s.Unavailable[observe.PartCordon]; s.Err == nil && !unknown {
		m.Cordoned = new(s.Cordon != nil)
	}
	if c := s.Cordon; c != nil {
		m.Cordon = &cordon{Owner: c.Owner, Reason: c.Why, Since: value.TimeOrNull(c.Since)}
	}
	if s.Err == nil {
		m.Networks = value.NewStringList(s.Networks)
	}
	var diags diag.Diagnostics
	m.Guests, diags = guestsMap(ctx, s.Info.Guests)
	return m, diags
}

func guestsMap(ctx context.Context, all []libvirt.Guest) (types.Map, diag.Diagnostics) {
	byArch := make(map[string]guestModel, len(all))
	for _, g := range all {
		byArch[g.Arch] = guestModel{
			DomainTypes:  value.NewStringList(append([]string{}, g.DomainTypes...)),
			MachineTypes: value.NewStringList(append([]string{}, g.MachineTypes...)),
		}
	}
	return types.MapValueFrom(ctx, guestType, byArch)
}

// versionOrNull returns null for an unknown version.
func versionOrNull(v libvirt.Version) types.String {
	if v == (libvirt.Version{}) {
		return types.StringNull()
	}
	return types.StringValue(v.String())
}

// memoryNumber converts an amount of memory to Terraform's numbers.
func memoryNumber(n uint64) types.Int64 { return types.Int64Value(value.Whole(n)) }
