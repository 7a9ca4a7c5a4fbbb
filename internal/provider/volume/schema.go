package volume

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// cloneFull is a copy of its own, cloneOverlay one that is based on the image.
const (
	cloneFull    = "full"
	cloneOverlay = "overlay"
)

// model is the resource as Terraform has it.
type model struct {
	ID            types.String      `tfsdk:"id"`
	Name          types.String      `tfsdk:"name"`
	Pool          types.String      `tfsdk:"pool"`
	Host          types.String      `tfsdk:"host"`
	Size          value.Quantity    `tfsdk:"size"`
	Format        types.String      `tfsdk:"format"`
	Image         types.String      `tfsdk:"image"`
	Clone         types.String      `tfsdk:"clone"`
	CopyOf        types.String      `tfsdk:"copy_of"`
	Preallocation types.String      `tfsdk:"preallocation"`
	Permissions   *permissionsModel `tfsdk:"permissions"`
	Encryption    *encryptionModel  `tfsdk:"encryption"`
	Path          types.String      `tfsdk:"path"`
	CurrentHost   types.String      `tfsdk:"current_host"`
}

type permissionsModel struct {
	Mode  types.String `tfsdk:"mode"`
	Owner types.String `tfsdk:"owner"`
	Group types.String `tfsdk:"group"`
}

type encryptionModel struct {
	Secret types.String `tfsdk:"secret"`
}

// Schema describes the resource.
func (*volumeResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A volume that outlives VMs. It is found again by pool and name, on whatever host it is after " +
			"a VM has moved with it. It grows in place, also under a running VM, and never shrinks: a smaller `size` is " +
			"refused in the plan. It is never removed while a definition of a VM uses it or another volume is based on it. A " +
			"host that doesn't answer, or a pool that isn't active, is no reason to take it for gone.",
		Attributes: map[string]schema.Attribute{
			"id":   computed("`<pool>/<name>`, by which disks refer to the volume."),
			"name": replaced("Name of the volume, unique in its pool."),
			"pool": replaced("Name of the storage pool."),
			"host": schema.StringAttribute{
				MarkdownDescription: "Host whose pool it is made in: a key of the provider's `hosts`. Needed where the pool is " +
					"on several hosts that don't share it, and not allowed to change: volumes move with their VMs.",
				Optional: true,
			},
			"size": schema.StringAttribute{
				MarkdownDescription: "What a guest sees: " + value.QuantitySyntax + ". Not set: as much as the image or volume " +
					"that it is made from. Never less than that has.",
				Optional: true, Computed: true, CustomType: value.QuantityType,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Validators: []validator.String{stringvalidator.AtLeastOneOf(path.MatchRoot("size"), path.MatchRoot("image"),
					path.MatchRoot("copy_of"))},
			},
			"format": schema.StringAttribute{
				MarkdownDescription: "`qcow2`, `raw`, or another one that libvirt makes in the pool. Not set: `qcow2` where " +
					"volumes are files, otherwise `raw`.",
				Optional: true, Computed: true,
				PlanModifiers: []planmodifier.String{
					stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured(),
				},
			},
			"image": origin("Id of a `virtfleet_image` that it begins as.", path.MatchRoot("copy_of")),
			"clone": schema.StringAttribute{
				MarkdownDescription: "How it is made from the image: `overlay` is based on the image's copy of that host, and " +
					"holds what is changed; `full` is a copy of its own. Default: `overlay`.",
				Optional:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators: []validator.String{
					stringvalidator.OneOf(cloneOverlay, cloneFull), stringvalidator.AlsoRequires(path.MatchRoot("image")),
				},
			},
			"copy_of": origin("Id of a `virtfleet_volume` on the same host that it begins as a copy of. No VM may be writing "+
				"to that meanwhile.", path.MatchRoot("image")),
			"preallocation": schema.StringAttribute{
				MarkdownDescription: "Which room it takes when it is made: one of " + value.OneOf(storage.Preallocations()) +
					". Default: `off`.",
				Optional:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.OneOf(storage.Preallocations()...)},
			},
			"permissions": schema.SingleNestedAttribute{
				MarkdownDescription: "Of the file, when it is made; libvirt gives it to QEMU while a VM runs.",
				Optional:            true,
				PlanModifiers:       []planmodifier.Object{objectplanmodifier.RequiresReplace()},
				Attributes: map[string]schema.Attribute{
					"mode":  schema.StringAttribute{MarkdownDescription: "Octal: `0600`.", Optional: true},
					"owner": schema.StringAttribute{MarkdownDescription: "Id of the user.", Optional: true},
					"group": schema.StringAttribute{MarkdownDescription: "Id of the group.", Optional: true},
				},
			},
			"encryption": schema.SingleNestedAttribute{
				MarkdownDescription: "LUKS.",
				Optional:            true,
				PlanModifiers:       []planmodifier.Object{objectplanmodifier.RequiresReplace()},
				Attributes: map[string]schema.Attribute{
					"secret": schema.StringAttribute{
						MarkdownDescription: "Id of a `virtfleet_secret` of usage `volume` that is on the same host.", Required: true,
					},
				},
			},
			"path": computed("Where it is on its host."),
			"current_host": computed("Host that has it; of a pool that hosts share, the one that it was made or found through " +
				"last."),
		},
	}
}

func computed(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Computed: true,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

func replaced(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Required: true,
		PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:    []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

func origin(description string, other path.Expression) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true,
		PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:    []validator.String{stringvalidator.ConflictsWith(other), isID{}},
	}
}

// isID refuses what is not "<pool>/<name>".
type isID struct{}

// Description says what is accepted.
func (isID) Description(context.Context) string { return "must be <pool>/<name>" }

// MarkdownDescription says what is accepted.
func (v isID) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString refuses what is not an id.
func (v isID) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if refOf(req.ConfigValue) == nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid id", req.ConfigValue.ValueString()+" "+v.Description(ctx)+".")
	}
}
