package image

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// partial is the value in host_states for a copy whose upload was interrupted.
const partial = "partial"

// model is the resource in Terraform.
type model struct {
	ID          types.String   `tfsdk:"id"`
	Name        types.String   `tfsdk:"name"`
	Pool        types.String   `tfsdk:"pool"`
	Source      *sourceModel   `tfsdk:"source"`
	Hosts       types.Set      `tfsdk:"hosts"`
	Volume      types.String   `tfsdk:"volume"`
	SHA256      types.String   `tfsdk:"sha256"`
	Format      types.String   `tfsdk:"format"`
	VirtualSize value.Quantity `tfsdk:"virtual_size"`
	Superseded  types.List     `tfsdk:"superseded"`
	HostStates  types.Map      `tfsdk:"host_states"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

type sourceModel struct {
	URL      types.String `tfsdk:"url"`
	File     types.String `tfsdk:"file"`
	Checksum types.String `tfsdk:"checksum"`
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

const imageDescription = "Puts a disk image on hosts, for disks and volumes. The provider " +
	"downloads the image once, where Terraform runs, verifies its checksum, decompresses it (gzip, xz, zstd, bzip2), " +
	"and sends it to the hosts. Each host with the pool gets a copy, hosts that share it one: a volume " +
	"named `<name>-<first 12 digits of its SHA-256>`.\n\n" +
	"Format (qcow2 or raw) and size are read from the image itself. A qcow2 image with a backing file or an external " +
	"data file is refused, and so is a qcow2 image for a pool of raw volumes, such as `logical`.\n\n" +
	"**New content:** if `source` or its `file` changes, each host gets a new copy. The old copy is removed once no " +
	"disk is based on it.\n\n" +
	"**Destroy:** removes the copies. If a disk is based on a copy, the destroy fails, and that copy stays. The " +
	"same holds for a host that leaves `hosts`.\n\n" +
	"**Interruptions:** the next apply continues. No disk can use an incomplete copy. See [How an image gets to the " +
	"hosts](../guides/images-and-disks.md#how-an-image-gets-to-the-hosts)."

// Schema describes the resource.
func (*imageResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: imageDescription,
		Attributes: map[string]schema.Attribute{
			"id": value.StableString("`<pool>/<volume>`. It changes with the content, `name` and `pool`. Then, unless " +
				"their `lifecycle` has `ignore_changes`, plans of VMs with a disk from the image fail, and volumes from it " +
				"**are replaced, without their data**."),
			"name": schema.StringAttribute{
				MarkdownDescription: "Name. Each copy is a volume named `<name>-<first 12 digits of its " +
					"SHA-256>`. Images in one pool need different names, also in two configurations: those with one content " +
					"share copies, and a destroy removes them for both: the plan warns. A change replaces it, and **can delete " +
					"volumes**: see `id`.",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators: []validator.String{stringvalidator.RegexMatches(nameSyntax,
					"must be letters, digits, \".\", \"_\" and \"-\"")},
			},
			"pool": schema.StringAttribute{
				MarkdownDescription: "Name of the storage pool for the copies, of type `dir`, `fs`, `netfs`, `logical` or `zfs`. " +
					"libvirt can't upload to others; a volume in `rbd` (Ceph) can be made from a copy. None can be made from one in " +
					"`zfs`: copy it by hand. A change replaces the image: see `id`.",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"source": schema.SingleNestedAttribute{
				MarkdownDescription: "Source, read again if this attribute changes, a host lacks its copy, or a `file` has " +
					"another size or time. Use a URL with a version, not `latest`: if its content changes, an apply that needs a " +
					"copy fails.",
				Required: true,
				Attributes: map[string]schema.Attribute{
					"url": schema.StringAttribute{
						MarkdownDescription: "URL, `http` or `https`. Set exactly one of `url`, `file`.",
						Optional:            true,
						Validators: []validator.String{
							stringvalidator.ExactlyOneOf(path.MatchRoot("source").AtName("url"), path.MatchRoot("source").AtName("file")),
							stringvalidator.RegexMatches(regexp.MustCompile(`^https?://`), "must begin with http:// or https://"),
						},
					},
					"file": schema.StringAttribute{MarkdownDescription: "Path of a file where Terraform runs, relative to its " +
						"working directory. For a file next to the configuration, use `${path.module}`. Set exactly one of `url`, " +
						"`file`.", Optional: true},
					"checksum": schema.StringAttribute{
						MarkdownDescription: "Checksum of the source, before it is decompressed: `sha256:<hex>`, " +
							"`sha512:<hex>`, or the URL of a checksum file, such as `SHA256SUMS`, that lists the image. " +
							"Default: none, the source isn't verified.",
						Optional:   true,
						Validators: []validator.String{checksum{}},
					},
				},
			},
			"hosts": schema.SetAttribute{
				MarkdownDescription: "Hosts that get a copy: keys of the provider's `hosts`. Default: every host that has " +
					"the pool.",
				ElementType: types.StringType,
				Optional:    true,
			},
			"volume":       value.StableString("Name of the volume."),
			"sha256":       value.StableString("SHA-256 of the decompressed content."),
			"format":       value.StableString("Format: `qcow2` or `raw`, read from the image itself."),
			"virtual_size": computedQuantity("Size of the disk that a guest sees, such as `2Gi`."),
			"superseded": schema.ListAttribute{
				MarkdownDescription: "Copies of earlier content that disks are still based on. Once no disk is based " +
					"on a copy, an apply removes it. An import doesn't find them: another configuration may have them.",
				ElementType: types.StringType,
				Computed:    true,
			},
			onhosts.StatesName: onhosts.StatesAttribute("image", "`present`, `partial` (its upload was interrupted) or "+
				"`missing`"),
			"timeouts": value.Timeouts(ctx, timeouts.Opts{
				Create: true, Update: true, Delete: true,
				CreateDescription: "For downloading the image and sending it to the hosts. Default: `1h`.",
				UpdateDescription: "For the same after a change. Default: `1h`.",
				DeleteDescription: "For removing the copies. Default: `20m`.",
			}),
		},
	}
}

func computedQuantity(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Computed: true, CustomType: value.QuantityType,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

// checksum refuses texts that aren't checksums.
type checksum struct{}

// Description says what the validator accepts.
func (checksum) Description(context.Context) string { return "must be sha256:, sha512: or a URL" }

// MarkdownDescription says what the validator accepts.
func (c checksum) MarkdownDescription(ctx context.Context) string { return c.Description(ctx) }

// ValidateString refuses texts that aren't checksums.
func (checksum) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := storage.CheckChecksum(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid checksum", err.Error()+".")
	}
}
