package provider

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// domainTypes are the values of default_domain_type.
var domainTypes = []string{"kvm", "qemu"}

// hostNames matches names that stay readable in messages, paths and marks.
var hostNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Schema returns the schema of the provider block.
func (p *Provider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages VMs on libvirt hosts as one fleet: a VM is found on any host. Nothing runs on the " +
			"hosts except libvirt, reached over SSH.",
		Attributes: map[string]schema.Attribute{
			"hosts": schema.MapNestedAttribute{
				Optional: true,
				MarkdownDescription: "Hosts of the fleet, by the name that `host` attributes and messages use. Default: one " +
					"host named `" + defaultHost + "` at `uri`.",
				Validators: []validator.Map{
					mapvalidator.SizeAtLeast(1),
					mapvalidator.KeysAre(stringvalidator.RegexMatches(hostNames,
						"a host's name is made of letters, digits, \".\", \"-\" and \"_\", with a letter or digit at both ends")),
					mapvalidator.ConflictsWith(path.MatchRoot("uri")),
				},
				NestedObject: schema.NestedAttributeObject{Attributes: hostAttributes()},
			},
			"uri": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "libvirt URI of the only host, instead of `hosts`, such as `qemu:///system`. " +
					uriDescription + " Default: the environment variable `" + envURI + "`, otherwise `" +
					envLibvirtURI + "`, otherwise libvirt's own default.",
				Validators: []validator.String{uriValidator{checkURI}},
			},
			"ssh": sshAttribute("How to reach hosts with an SSH URI. Parameters of a host's URI (`keyfile`, " +
				"`known_hosts`, `known_hosts_verify`, `no_verify`) take precedence over this block, and " +
				"`hosts.<name>.ssh` over both."),
			"default_domain_type": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Domain type of new VMs that don't set `type`. One of " + value.OneOf(domainTypes) + ". " +
					"Default: `kvm` if the host offers it, otherwise `qemu`.",
				Validators: []validator.String{value.Among(domainTypes...)},
			},
			"default_eviction_strategy": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "[Eviction strategy](guides/eviction-strategies.md) of VMs without another. One " +
					"of " + value.OneOf(evacuation.Strategies) + ". **Only `None` shuts VMs down**. " +
					"`LiveMigrateIfPossible` means `LiveMigrate` here: a VM that can't move live blocks drains. Default: `" +
					evacuation.LiveMigrateIfPossible + "`.",
				Validators: []validator.String{value.Among(evacuation.Strategies...)},
			},
			"migration_limits": limitsAttribute(),
			migrationoptions.Name: migrationoptions.OfProvider("Defaults for every migration. Policies, VMs and " +
				"migrations can set others. [The options' defaults](guides/migration-options.md)."),
			"on_unreachable": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "What to do about resources whose host doesn't answer. One of " +
					value.OneOf(meta.OnUnreachableValues()) + ". `" + meta.OnUnreachableError + "` fails the plan. `" +
					meta.OnUnreachableKeep + "` warns, and fails the run only if the resource would change. Both keep the resource " +
					"in the state. Default: `" + meta.OnUnreachableError + "`.",
				Validators: []validator.String{value.Among(meta.OnUnreachableValues()...)},
			},
		},
	}
}

const uriDescription = "See [URIs](guides/hosts.md#uris)."

func hostAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"uri": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "libvirt URI of the host, such as `qemu+ssh://root@kvm1.example.net/system`. " + uriDescription,
			Validators:          []validator.String{uriValidator{checkURI}},
		},
		"labels": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Labels of the host, matched by `placement.host_labels` of VMs.",
		},
		"memory_limit": schema.StringAttribute{
			Optional: true, CustomType: value.QuantityType,
			MarkdownDescription: "How much memory may be committed to VMs, including what QEMU needs for them: " +
				"a [size](guides/values-and-names.md#sizes) such as `48Gi`. Default: the host's memory minus `memory_reserve`.",
		},
		"memory_reserve": schema.StringAttribute{
			Optional: true, CustomType: value.QuantityType,
			MarkdownDescription: "How much memory is kept for the host itself: a [size](guides/values-and-names.md#sizes) " +
				"such as `1Gi`. It has no effect if `memory_limit` is set. Default: `512Mi`, as in OpenStack.",
		},
		"overcommit_guest_overhead": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether only the memory of guests counts, without [what QEMU needs for each " +
				"VM](guides/host-capacity.md#memory). Default: `false`.",
		},
		"storage_overprovisioning_factor": schema.Float64Attribute{
			Optional: true,
			MarkdownDescription: "What the volumes of a storage pool of the host may grow to together, as a multiple of the " +
				"pool's capacity. At least `0.1`. [What counts](guides/host-capacity.md#storage-pools). Default: unlimited.",
			Validators: []validator.Float64{float64validator.AtLeast(0.1)},
		},
		"migration_address": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Name or IP address at which the host receives migrations. Default: `migration_address` in " +
				"its `qemu.conf`, otherwise what `virsh hostname` prints there, which the other hosts must resolve.",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"peer_uri": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "libvirt URI at which other hosts reach this one, such as `qemu+tls://10.0.0.12/system`. " +
				"Required for [peer-to-peer migrations](guides/peer-to-peer-migrations.md) to this host.",
			Validators: []validator.String{uriValidator{checkPeerURI}},
		},
		"devices": devicesAttribute(),
		"schedulable": schema.BoolAttribute{
			Optional:            true,
			MarkdownDescription: "Whether VMs without `host` may be placed here. VMs that run here stay. Default: `true`.",
		},
		"fenced": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Confirms that the host is off. The provider treats its VMs as gone, and asks it only " +
				"whether it still runs a VM that is to be created again. If the host isn't off, a VM may run twice: see [A host " +
				"died](guides/a-host-died.md). Default: `false`.",
		},
		"ssh": sshAttribute("How to reach this host. Each attribute takes precedence over the provider's `ssh` block. " +
			"A private key replaces the block's key, passphrase and certificate together."),
	}
}
