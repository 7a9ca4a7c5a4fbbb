package host

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := Attributes()
	attributes["name"] = schema.StringAttribute{
		Required:            true,
		MarkdownDescription: "Name of the host in the provider's `hosts`. It is `default` if the provider has only a `uri`.",
	}
	maps.Copy(attributes, QuestionAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads what one host of the fleet is, what it can run, and how much of it is in use. If " +
			"the host doesn't answer, the plan fails. With `on_unreachable = \"keep\"` in the provider block, " +
			"`reachable` is false instead, and everything that only the host knows is null.",
		Attributes: attributes,
	}
}

// Attributes returns the attributes of everything that is read of a host. Facts that only the host itself reports are
// null while the host is unreachable.
func Attributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{
		"uri": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "libvirt URI of your configuration. Empty if libvirt chooses it.",
		},
		"labels": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Labels of your configuration.",
		},
		"schedulable": schema.BoolAttribute{
			Computed:            true,
			MarkdownDescription: "Whether VMs without `host` may be placed here: `schedulable` of your configuration.",
		},
		"fenced": schema.BoolAttribute{
			Computed:            true,
			MarkdownDescription: "Whether your configuration declares that the host is off (`fenced`). It isn't queried then.",
		},
		"reachable": schema.BoolAttribute{
			Computed:            true,
			MarkdownDescription: "Whether the host answered.",
		},
		"error": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Why the host didn't answer. Null if it did, or if it wasn't asked.",
		},
	}
	maps.Copy(attributes, identityAttributes())
	maps.Copy(attributes, capacityAttributes())
	maps.Copy(attributes, cordonAttributes())
	maps.Copy(attributes, detailAttributes())
	return attributes
}

func cordonAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cordoned": schema.BoolAttribute{
			Computed:            true,
			MarkdownDescription: "Whether a maintenance, recorded on the host itself, keeps VMs away. Null if unknown.",
		},
		"cordon": schema.SingleNestedAttribute{
			Computed: true, MarkdownDescription: "Cordon of the host. Null if the host isn't cordoned.",
			Attributes: map[string]schema.Attribute{
				"owner":  value.ReportedString("Terraform run that cordoned the host, as `<user>@<computer>`."),
				"since":  value.ReportedString("When it was cordoned (RFC 3339)."),
				"reason": value.ReportedString("Reason of the maintenance."),
			},
		},
		"unavailable": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why attributes are null, by their names.",
		},
	}
}

func identityAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"uuid": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "libvirt's UUID of the host. It doesn't depend on the host's name and address.",
		},
		"hostname": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Hostname that the host's libvirt reports.",
		},
		"driver": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "libvirt's driver: `QEMU`, or `TEST` for the built-in test driver.",
		},
		"libvirt_version": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Version of the host's libvirt.",
		},
		"hypervisor_version": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Version of the host's hypervisor. For the driver `QEMU`, this is QEMU's version.",
		},
		"arch": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Architecture of the host's processors.",
		},
		"cpu_model": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Model of the host's processors, as libvirt names it.",
		},
		"guests": schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: "What the host can run, by guest architecture.",
			NestedObject: schema.NestedAttributeObject{
				Attributes: map[string]schema.Attribute{
					"domain_types": schema.ListAttribute{
						Computed: true, ElementType: types.StringType,
						MarkdownDescription: "Domain types that the host offers: `kvm`, `qemu`.",
					},
					"machine_types": schema.ListAttribute{
						Computed: true, ElementType: types.StringType,
						MarkdownDescription: "Machine types that the host offers, and their aliases.",
					},
				},
			},
		},
		"networks": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Names of libvirt's virtual networks on the host, in alphabetical order. Null if " +
				"unknown: see `unavailable`.",
		},
	}
}

func capacityAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cpus": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Number of the host's online processors.",
		},
		"memory_bytes": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Memory of the host.",
		},
		"memory_limit_bytes": schema.Int64Attribute{
			Computed: true,
			MarkdownDescription: "Memory that may be committed to VMs: `memory_limit` if configured, otherwise the " +
				"host's memory minus `memory_reserve`.",
		},
		"committed_memory_bytes": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Memory that is committed to running VMs.",
		},
		"free_memory_bytes": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Memory that VMs can still get: `memory_limit_bytes` minus `committed_memory_bytes`.",
		},
		"virtual_machine_count": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Number of VMs on the host, managed by this provider or not.",
		},
		"active_virtual_machine_count": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Number of VMs that are running or paused.",
		},
	}
}
