package volume

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// cloneFull is an independent copy, and cloneOverlay a copy that is based on the image.
const (
	cloneFull    = "full"
	cloneOverlay = "overlay"
)

// model is the resource in Terraform.
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
	Timeouts      timeouts.Value    `tfsdk:"timeouts"`
}

type permissionsModel struct {
	Mode  types.String `tfsdk:"mode"`
	Owner types.String `tfsdk:"owner"`
	Group types.String `tfsdk:"group"`
}

type encryptionModel struct {
	Secret types.String `tfsdk:"secret"`
}

const volumeDescription = "Manages a storage volume that outlives VMs. **Destroying or replacing the resource " +
	"deletes the volume with its data.**\n\n**Changes:** A larger `size` grows the volume, even while a VM runs. The " +
	"plan fails for a smaller `size`, another `host`, and `permissions` that the file doesn't have. `timeouts` and " +
	"`encryption.secret` leave the volume as it is. Any other change **replaces it without its data**. The plan lists " +
	"what uses it, except with `-replace`. A volume that a VM's definition uses or that another volume is based on is " +
	"never deleted: the apply fails.\n\n**After an import,** the first value of `image`, `clone`, `copy_of`, " +
	"`preallocation`, `permissions` or `encryption` describes the volume: nothing is created. If it isn't so, the " +
	"plan fails.\n\nThe provider finds the volume by pool and name, on its last host first: " +
	"see [A volume that isn't found](../guides/existing-disks.md#a-volume-that-isnt-found). If its " +
	"host doesn't answer or its pool isn't active, the volume stays in the state."

// Schema describes the resource.
func (*volumeResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: volumeDescription,
		Attributes: map[string]schema.Attribute{
			"id": value.StableString("`<pool>/<name>`. Disks refer to the volume by this id."),
			"name": replacedString("Name of the volume. If hosts have a pool of the same name and don't share it, each " +
				"may have a volume of this name only if they are all of one configuration. Otherwise the plan warns."),
			"pool": replacedString("Name of the storage pool."),
			"host": schema.StringAttribute{
				MarkdownDescription: "Host that the volume is created on: a key of the provider's `hosts`. Required if " +
					"several hosts have the pool and don't share it. A change to another host than `current_host` is an error: " +
					"[move its VM](../guides/moving-without-shared-storage.md). If the VM runs, set `copy_storage`.",
				Optional: true,
			},
			"size": schema.StringAttribute{
				MarkdownDescription: "[Size](../guides/values-and-names.md#sizes) that a guest sees, such as `20Gi`: at least " +
					"that of `image` or `copy_of`. Devices, as in `logical` pools, can't grow, and encrypted volumes only while a " +
					"VM runs on them. Required without `image` and `copy_of`. Default for new volumes: the size of these.",
				Optional: true, Computed: true, CustomType: value.QuantityType,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Validators: []validator.String{stringvalidator.AtLeastOneOf(path.MatchRoot("size"), path.MatchRoot("image"),
					path.MatchRoot("copy_of"))},
			},
			"format": schema.StringAttribute{
				MarkdownDescription: "Format: `qcow2`, `raw`, or another one that libvirt supports in the pool. " +
					"Default for new volumes: `qcow2` in `dir`, `fs` and `netfs` pools, otherwise `raw`.",
				Optional: true, Computed: true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"image": originAttribute("Id of the `virtfleet_image` to create the volume from. New content has a new id, which "+
				"**replaces the volume** in the apply after that of the image, unless `lifecycle { ignore_changes = [image] }` is "+
				"set. Set at most one of `image`, `copy_of`.", path.MatchRoot("copy_of")),
			"clone": schema.StringAttribute{
				MarkdownDescription: "How the volume is created from the image. `overlay`: it is based on the host's copy " +
					"of the image and holds only the changes. `full`: it is an independent copy, as it must be in " +
					"`logical`, `disk` and `rbd` pools. Default: `overlay`.", Optional: true,
				Validators: []validator.String{
					value.Among(cloneOverlay, cloneFull), stringvalidator.AlsoRequires(path.MatchRoot("image")),
				},
			},
			"copy_of": originAttribute("Id of the `virtfleet_volume` on the same host to copy. While a VM that can "+
				"write to it runs, the apply fails. If libvirt mistakes a raw disk's data for another format, the copy needs "+
				"`format = \"raw\"`.", path.MatchRoot("image")),
			"preallocation": schema.StringAttribute{
				MarkdownDescription: "Space to allocate at creation. One of " + value.OneOf(storage.Preallocations()) + ". " +
					"`metadata` is for `qcow2`. Overlays can only be `off`, volumes of `logical` pools only `full`. In `rbd` pools, " +
					"all are thin. Default: `off`, in `logical` pools `full`.", Optional: true,
				Validators: []validator.String{value.Among(storage.Preallocations()...)},
			},
			"permissions": schema.SingleNestedAttribute{
				MarkdownDescription: "Permissions of the file at creation. A change fails the plan, with the command to run on " +
					"the host. While a VM runs, libvirt makes QEMU's user the owner of the file.",
				Optional: true,
				Attributes: map[string]schema.Attribute{
					"mode":  schema.StringAttribute{MarkdownDescription: "Mode in octal, such as `0600`.", Optional: true},
					"owner": schema.StringAttribute{MarkdownDescription: "Numeric id of the owner.", Optional: true},
					"group": schema.StringAttribute{MarkdownDescription: "Numeric id of the group.", Optional: true},
				},
			},
			"encryption": encryptionAttribute(),
			"path":       value.StableString("Path on its host."),
			"current_host": value.StableString("Host that has the volume. If hosts share the pool: the host through " +
				"which the volume was created or last found."),
			"timeouts": value.Timeouts(ctx, timeouts.Opts{
				Create: true, Update: true, Delete: true,
				CreateDescription: "For creating the volume: a copy of a large one takes long, and so does `preallocation`. If " +
					"the time is over, the next apply creates the volume again from the beginning. Default: `1h`.",
				UpdateDescription: "For growing the volume. Default: `1h`.",
				DeleteDescription: "For deleting the volume. Default: `20m`.",
			}),
		},
	}
}

func replacedString(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Required: true,
		Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

func encryptionAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "LUKS encryption. An import reads the secret that libvirt knows, or that a VM has for the " +
			"volume. Otherwise declare it afterwards, which leaves the volume as it is. Left out, an imported volume stays " +
			"encrypted.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"secret": schema.StringAttribute{
				MarkdownDescription: "Id of a `virtfleet_secret` with the usage `volume` on the same host. " +
					"Another one must have the same passphrase: that of the volume doesn't change.", Required: true,
			},
		},
	}
}

func originAttribute(description string, other path.Expression) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true,
		Validators: []validator.String{stringvalidator.ConflictsWith(other), isID{}},
	}
}

// isID refuses texts that aren't "<pool>/<name>".
type isID struct{}

// Description says what the validator accepts.
func (isID) Description(context.Context) string { return "must be <pool>/<name>" }

// MarkdownDescription says what the validator accepts.
func (v isID) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString refuses texts that aren't ids.
func (v isID) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if refOf(req.ConfigValue) == nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid id", req.ConfigValue.ValueString()+" "+v.Description(ctx)+".")
	}
}
