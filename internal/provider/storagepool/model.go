package storagepool

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// model is the resource in Terraform.
type model struct {
	ID              types.String   `tfsdk:"id"`
	Name            types.String   `tfsdk:"name"`
	Type            types.String   `tfsdk:"type"`
	Target          types.Object   `tfsdk:"target"`
	Source          types.Object   `tfsdk:"source"`
	Hosts           types.Set      `tfsdk:"hosts"`
	Shared          types.Bool     `tfsdk:"shared"`
	Autostart       types.Bool     `tfsdk:"autostart"`
	Build           types.Bool     `tfsdk:"build"`
	OnDestroy       types.String   `tfsdk:"on_destroy"`
	HostStates      types.Map      `tfsdk:"host_states"`
	RefreshTriggers types.Map      `tfsdk:"refresh_triggers"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

type targetModel struct {
	Path        types.String      `tfsdk:"path"`
	Permissions *permissionsModel `tfsdk:"permissions"`
}

type permissionsModel struct {
	Mode  types.String `tfsdk:"mode"`
	Owner types.String `tfsdk:"owner"`
	Group types.String `tfsdk:"group"`
	Label types.String `tfsdk:"label"`
}

type sourceModel struct {
	Name            types.String  `tfsdk:"name"`
	Dir             types.String  `tfsdk:"dir"`
	Format          types.String  `tfsdk:"format"`
	Devices         types.List    `tfsdk:"devices"`
	Hosts           []hostModel   `tfsdk:"hosts"`
	Initiator       types.String  `tfsdk:"initiator"`
	ProtocolVersion types.String  `tfsdk:"protocol_version"`
	Adapter         *adapterModel `tfsdk:"adapter"`
	Auth            *authModel    `tfsdk:"auth"`
}

type hostModel struct {
	Name types.String `tfsdk:"name"`
	Port types.Int64  `tfsdk:"port"`
}

type adapterModel struct {
	Type   types.String `tfsdk:"type"`
	Name   types.String `tfsdk:"name"`
	Parent types.String `tfsdk:"parent"`
	WWNN   types.String `tfsdk:"wwnn"`
	WWPN   types.String `tfsdk:"wwpn"`
}

type authModel struct {
	Type     types.String `tfsdk:"type"`
	Username types.String `tfsdk:"username"`
	Secret   types.String `tfsdk:"secret"`
}

// isImported reports whether the state has only what an import begins with.
func (m *model) isImported() bool { return m.Type.IsNull() }

// settings returns a pool's settings that aren't in its definition.
func (m *model) settings() storage.PoolSettings {
	s := storage.PoolSettings{Build: m.Build.ValueBool(), Shared: m.Shared.ValueBool(), Autostart: value.Bool(m.Autostart)}
	if m.Build.IsNull() {
		s.Build = storage.BuildsByDefault(m.Type.ValueString())
	}
	return s
}

// pool returns the declared pool.
func (m *model) pool(ctx context.Context) (p storage.Pool, diags diag.Diagnostics) {
	p = storage.Pool{Name: m.Name.ValueString(), Type: m.Type.ValueString()}
	known := basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true}
	var target targetModel
	diags.Append(m.Target.As(ctx, &target, known)...)
	p.Path = value.String(target.Path)
	if o := target.Permissions; o != nil {
		p.Mode, p.Owner = value.String(o.Mode), value.String(o.Owner)
		p.Group, p.Label = value.String(o.Group), value.String(o.Label)
	}
	var source sourceModel
	diags.Append(m.Source.As(ctx, &source, known)...)
	p.SourceName, p.SourceDir = value.String(source.Name), value.String(source.Dir)
	p.SourceFormat, p.Initiator = value.String(source.Format), value.String(source.Initiator)
	p.ProtocolVersion, p.Devices = value.String(source.ProtocolVersion), value.StringList(source.Devices)
	for _, h := range source.Hosts {
		p.SourceHosts = append(p.SourceHosts, storage.SourceHost{
			Name: h.Name.ValueString(), Port: h.Port.ValueInt64Pointer(),
		})
	}
	if a := source.Adapter; a != nil {
		p.Adapter = &storage.Adapter{
			Type: value.String(a.Type), Name: value.String(a.Name), Parent: value.String(a.Parent),
			WWNN: value.String(a.WWNN), WWPN: value.String(a.WWPN),
		}
	}
	if a := source.Auth; a != nil {
		p.Auth = &storage.Auth{
			Type: a.Type.ValueString(), Username: a.Username.ValueString(), Secret: a.Secret.ValueString(),
		}
	}
	return p, diags
}

// setFromPool sets the state to a pool.
func (m *model) setFromPool(ctx context.Context, p storage.Pool) (diags diag.Diagnostics) {
	m.Name, m.ID, m.Type = types.StringValue(p.Name), types.StringValue(p.Name), types.StringValue(p.Type)
	target := targetModel{Path: types.StringPointerValue(p.Path)}
	if p.Mode != nil || p.Owner != nil || p.Group != nil || p.Label != nil {
		target.Permissions = &permissionsModel{
			Mode: types.StringPointerValue(p.Mode), Owner: types.StringPointerValue(p.Owner),
			Group: types.StringPointerValue(p.Group), Label: types.StringPointerValue(p.Label),
		}
	}
	if p.Path != nil || target.Permissions != nil {
		object, d := types.ObjectValueFrom(ctx, m.Target.AttributeTypes(ctx), target)
		diags.Append(d...)
		m.Target = object
	}
	source := sourceModel{
		Name: types.StringPointerValue(p.SourceName), Dir: types.StringPointerValue(p.SourceDir),
		Format: types.StringPointerValue(p.SourceFormat), Initiator: types.StringPointerValue(p.Initiator),
		ProtocolVersion: types.StringPointerValue(p.ProtocolVersion), Devices: value.NewStringList(p.Devices),
	}
	for _, h := range p.SourceHosts {
		source.Hosts = append(source.Hosts, hostModel{Name: types.StringValue(h.Name), Port: types.Int64PointerValue(h.Port)})
	}
	if a := p.Adapter; a != nil {
		source.Adapter = &adapterModel{
			Type: types.StringPointerValue(a.Type), Name: types.StringPointerValue(a.Name),
			Parent: types.StringPointerValue(a.Parent), WWNN: types.StringPointerValue(a.WWNN),
			WWPN: types.StringPointerValue(a.WWPN),
		}
	}
	if a := p.Auth; a != nil {
		source.Auth = &authModel{
			Type: types.StringValue(a.Type), Username: types.StringValue(a.Username), Secret: types.StringValue(a.Secret),
		}
	}
	if hasSource(p) {
		object, d := types.ObjectValueFrom(ctx, m.Source.AttributeTypes(ctx), source)
		diags.Append(d...)
		m.Source = object
	}
	return diags
}

func hasSource(p storage.Pool) bool {
	return p.SourceName != nil || p.SourceDir != nil || p.SourceFormat != nil || p.Initiator != nil ||
		p.ProtocolVersion != nil || p.Devices != nil || p.SourceHosts != nil || p.Adapter != nil || p.Auth != nil
}
