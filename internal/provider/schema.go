package provider

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// domainTypes are the values of default_domain_type.
var domainTypes = []string{"kvm", "qemu"}

// hostNames are names that stay readable in messages, paths and marks.
var hostNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Schema is the provider block.
func (p *Provider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Virtual machines on libvirt hosts, as one fleet: they are found on whichever host they are, " +
			"and nothing runs on the hosts but libvirt, reached over SSH.",
		Attributes: map[string]schema.Attribute{
			"hosts": schema.MapNestedAttribute{
				Optional: true,
				MarkdownDescription: "The hosts of the fleet, by the name that `host` attributes and messages use. Not set: one " +
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
				MarkdownDescription: "libvirt URI of the only host, in place of `hosts`. With neither set: the environment " +
					"variable `" + envURI + "`, else `" + envLibvirtURI + "`, else what libvirt itself picks. " + uriDescription,
				Validators: []validator.String{uriValidator{checkURI}},
			},
			"ssh": sshAttribute("How hosts with an SSH URI are reached. Their URI's own parameters (`keyfile`, `known_hosts`, " +
				"`known_hosts_verify`, `no_verify`) win over this block, and `hosts.<name>.ssh` over both."),
			"default_domain_type": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Type of the virtual machines that don't set `type`: one of " + value.OneOf(domainTypes) +
					". Not set: `kvm` where the host offers it, else `qemu`.",
				Validators: []validator.String{stringvalidator.OneOf(domainTypes...)},
			},
			"default_eviction_strategy": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "What happens to virtual machines for which neither they themselves nor a " +
					"`virtfleet_eviction_policy` say anything when their host is emptied: one of " + value.OneOf(eviction.Strategies) +
					". Default: `LiveMigrateIfPossible`. Those that can't be moved while they run hold up the drain: none is shut " +
					"down unless `None` says so.",
				Validators: []validator.String{stringvalidator.OneOf(eviction.Strategies...)},
			},
			"migration_limits": limitsAttribute(),
			moving.Name: moving.OfProvider("Defaults for every migration. A `virtfleet_migration_policy` wins over them, " +
				"the block of a virtual machine or of a migration over both, attribute by attribute."),
			"on_unreachable": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "What happens with resources whose host doesn't answer: one of " +
					value.OneOf(meta.OnUnreachableValues()) + ". `" + meta.OnUnreachableError + "`, the default, fails the plan. `" +
					meta.OnUnreachableKeep + "` keeps the last known state with a warning, and fails only where that very " +
					"resource is to change. Neither ever takes a resource for gone.",
				Validators: []validator.String{stringvalidator.OneOf(meta.OnUnreachableValues()...)},
			},
		},
	}
}

const uriDescription = "Drivers are `qemu` and `test`, transports `ssh` (a client of the provider's own, without the " +
	"ssh program), `unix`, `tls` and `tcp`: `qemu+ssh://root@host/system`, `qemu:///system`, `test:///default`. " +
	"Over SSH, `/session` leads to the libvirt of the user who logs in, which is started if need be. libvirt's " +
	"parameters `socket` and `mode` choose the daemon's socket; without them, `libvirt-sock` is tried before " +
	"`virtqemud-sock`."

func hostAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"uri": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "libvirt URI of the host. " + uriDescription,
			Validators:          []validator.String{uriValidator{checkURI}},
		},
		"labels": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Labels of the host, matched by `placement.host_labels` of virtual machines.",
		},
		"memory_limit": schema.StringAttribute{
			Optional: true, CustomType: value.QuantityType,
			MarkdownDescription: "How much memory may be committed to virtual machines: " + value.QuantitySyntax +
				". Not set: the host's memory.",
		},
		"migration_address": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Name or IP address at which the host takes migrations from the other hosts. Not set: what " +
				"its libvirt picks (`migration_address` in `qemu.conf`, else its host name, which the others must resolve).",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"peer_uri": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "libvirt URI under which libvirt on the other hosts reaches libvirt on this one, which " +
				"migrations with `peer_to_peer` take. `qemu+tls://10.0.0.12/system` takes a libvirt that listens with TLS here, " +
				"and certificates of one authority on all hosts; `qemu+ssh://root@10.0.0.12/system` SSH keys of root of the " +
				"other hosts, and this host among those that they know; `qemu+tcp` is not encrypted, and for a network of the " +
				"hosts' own. The provider itself doesn't use it. Not set: no such migrations to this host.",
			Validators: []validator.String{uriValidator{checkPeerURI}},
		},
		"schedulable": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether virtual machines without a `host` may be placed here. Default `true`. What runs " +
				"there stays.",
		},
		"fenced": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Gives the host up: it isn't asked any more and what it had is taken for gone. Set it only " +
				"when the host is certainly off, or a virtual machine may run twice. Default `false`.",
		},
		"ssh": sshAttribute("How this host is reached: each attribute wins over the provider's `ssh` block. A private key " +
			"replaces the block's key, passphrase and certificate together."),
	}
}
