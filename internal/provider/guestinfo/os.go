package guestinfo

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// osModel is the guest's operating system.
type osModel struct {
	ID            types.String `tfsdk:"id"`
	Name          types.String `tfsdk:"name"`
	PrettyName    types.String `tfsdk:"pretty_name"`
	Version       types.String `tfsdk:"version"`
	VersionID     types.String `tfsdk:"version_id"`
	Variant       types.String `tfsdk:"variant"`
	VariantID     types.String `tfsdk:"variant_id"`
	KernelRelease types.String `tfsdk:"kernel_release"`
	KernelVersion types.String `tfsdk:"kernel_version"`
	Machine       types.String `tfsdk:"machine"`
}

// OSType is the type of OSAttribute.
var OSType = map[string]attr.Type{
	"id": types.StringType, "name": types.StringType, "pretty_name": types.StringType, "version": types.StringType,
	"version_id": types.StringType, "variant": types.StringType, "variant_id": types.StringType,
	"kernel_release": types.StringType, "kernel_version": types.StringType, "machine": types.StringType,
}

// OSAttribute returns the attribute for the guest's operating system.
func OSAttribute() schema.SingleNestedAttribute {
	text := value.ReportedString
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Operating system of the guest, as its `os-release` and kernel say.",
		Attributes: map[string]schema.Attribute{
			"id":             text("Short name, such as `debian`."),
			"name":           text("Name without version, such as `Debian GNU/Linux`."),
			"pretty_name":    text("Name with version, for people to read."),
			"version":        text("Version with its code name."),
			"version_id":     text("Version alone, such as `12`."),
			"variant":        text("Variant of the operating system, for people to read."),
			"variant_id":     text("Variant of the operating system, as a short name."),
			"kernel_release": text("Release of the kernel."),
			"kernel_version": text("Version of the kernel's build."),
			"machine":        text("Architecture of the kernel."),
		},
	}
}

// FromOS maps an operating system. nil is null.
func FromOS(ctx context.Context, os *libvirt.GuestOS) (types.Object, diag.Diagnostics) {
	if os == nil {
		return types.ObjectNull(OSType), nil
	}
	return types.ObjectValueFrom(ctx, OSType, osModel{
		ID:            value.NewStringOrNull(os.ID),
		Name:          value.NewStringOrNull(os.Name),
		PrettyName:    value.NewStringOrNull(os.PrettyName),
		Version:       value.NewStringOrNull(os.Version),
		VersionID:     value.NewStringOrNull(os.VersionID),
		Variant:       value.NewStringOrNull(os.Variant),
		VariantID:     value.NewStringOrNull(os.VariantID),
		KernelRelease: value.NewStringOrNull(os.KernelRelease),
		KernelVersion: value.NewStringOrNull(os.KernelVersion),
		Machine:       value.NewStringOrNull(os.Machine),
	})
}
