package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var (
	disksType      = types.MapType{ElemType: diskType}
	interfacesType = types.MapType{ElemType: interfaceType}
	addressesType  = types.MapType{ElemType: types.ListType{ElemType: types.StringType}}
)

// Schema is built once, when the provider's schema is asked for.
func (r *Resource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = vmSchema
}

var vmSchema = schema.Schema{
	MarkdownDescription: "A virtual machine on one of the fleet's hosts. It is known by its UUID and may be found on " +
		"any configured host: a machine that was moved is found again.\n\n" +
		"What the hypervisor knows (CPUs, memory, devices, ...) and isn't declared here is left alone. A declared map of " +
		"disks or interfaces is complete.\n\n" +
		"A machine that is tainted, or named by `-replace`, is destroyed before the new one is made, which gets its name " +
		"and its disks. `create_before_destroy` can't work: no two machines can have one name.",
	Attributes: merged(definitionAttributes, policyAttributes, computedAttributes),
}

// definitionAttributes are what the hypervisor knows.
var definitionAttributes = merged(requiredAttributes, declaredAttributes, deviceAttributes)

var requiredAttributes = attributes{
	"name": schema.StringAttribute{
		MarkdownDescription: "Name of the machine, unique in the fleet.",
		Required:            true,
	},
}

// declaredAttributes are optional: what the hypervisor knows besides devices is computed where it isn't declared.
var declaredAttributes = attributes{
	"type":     optionalString("Domain type: `kvm` or `qemu`. Default: the provider's `default_domain_type`."),
	"machine":  optionalString("Machine type, such as `q35`, which equals each of its versions (`pc-q35-7.2`)."),
	"arch":     optionalString("Architecture of the guest, such as `x86_64`. Changing it replaces the machine."),
	"cpu":      nested("Virtual CPUs.", cpuAttributes, cpuType),
	"memory":   nested("Memory.", memoryAttributes, memoryType),
	"firmware": nested("Firmware.", firmwareAttributes, firmwareType),
	"kernel":   nested("Kernel that is booted directly, without a boot loader.", kernelAttributes, kernelType),
}

var deviceAttributes = attributes{
	"disks": schema.MapNestedAttribute{
		MarkdownDescription: "Disks and drives by a name that is the device's identity. A declared map is complete.",
		NestedObject:        schema.NestedAttributeObject{Attributes: diskAttributes, CustomType: diskType},
		CustomType:          disksType,
		Optional:            true,
		Computed:            true,
	},
	"interfaces": schema.MapNestedAttribute{
		MarkdownDescription: "Network interfaces by a name that is the device's identity. A declared map is complete.",
		NestedObject:        schema.NestedAttributeObject{Attributes: interfaceAttributes, CustomType: interfaceType},
		CustomType:          interfacesType,
		Optional:            true,
		Computed:            true,
	},
	"guest_agent":    nested("Channel for the QEMU guest agent.", switchAttributes, switchType),
	"serial_console": nested("Serial console, as `virsh console` opens it.", switchAttributes, switchType),
}

// policyAttributes are what only we know. Removing one from the configuration removes it.
var policyAttributes = attributes{
	"host": schema.StringAttribute{
		MarkdownDescription: "Host that the machine is pinned to, a key of the provider's `hosts`. Changing it moves the " +
			"machine, while it runs if it runs. Omitted: the fleet places it, and it may move; `virtfleet_migration` moves " +
			"it.",
		Optional: true,
	},
	"placement": schema.SingleNestedAttribute{
		MarkdownDescription: "Where a machine that isn't pinned may be placed. It is used when the machine is created.",
		Attributes:          placementAttributes,
		CustomType:          placementType,
		Optional:            true,
	},
	"labels": schema.MapAttribute{
		MarkdownDescription: "Labels, kept in the definition's metadata.",
		ElementType:         types.StringType,
		Optional:            true,
		Validators:          []validator.Map{mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1))},
	},
	"run_strategy": schema.StringAttribute{
		MarkdownDescription: "What the machine's power should be: " + value.OneOf(status.RunStrategies) +
			". Default: `Always`. `Always`: one that was stopped or paused is started or resumed. `RerunOnFailure`: one that " +
			"crashed is started. `Manual`: left alone. `Halted`: shut down. `Once`: started when it is created, then left " +
			"alone. With `Always` its host starts it when it boots; where a migration that outlived its run took that away, " +
			"it is read as `Manual`.", Optional: true,
		Validators: []validator.String{stringvalidator.OneOf(status.RunStrategies...)},
	},
	"wait_for": schema.SingleNestedAttribute{
		MarkdownDescription: "What makes the machine ready, besides that it runs. Create and update wait for it. A new " +
			"machine that doesn't get ready in time is kept with `ready = false`, and the next apply waits again.",
		Attributes: waitAttributes,
		CustomType: waitType,
		Optional:   true,
	},
	"update_policy": schema.StringAttribute{
		MarkdownDescription: "What to do about a change that a running machine can't take: " +
			value.OneOf(fleet.UpdatePolicies) + ". Default: `Live`. `Live` fails the plan, `Restart` restarts the guest, " +
			"`Stage` leaves the change to the next start.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(fleet.UpdatePolicies...)},
	},
	"termination_grace_period": schema.StringAttribute{
		MarkdownDescription: "How long the guest may take to shut down before it is forced to. Default: `180s`.",
		CustomType:          value.DurationType,
		Optional:            true,
	},
	"deletion_protection": schema.BoolAttribute{
		MarkdownDescription: "Whether destroying and replacing the machine is refused. Default: `false`.",
		Optional:            true,
	},
	"eviction_strategy": schema.StringAttribute{
		MarkdownDescription: "What happens to the machine when its host is emptied: " +
			value.OneOf(eviction.Strategies) + ". It wins over every `virtfleet_eviction_policy`. Omitted: the policy " +
			"that matches, else `LiveMigrateIfPossible` without ever shutting it down.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(eviction.Strategies...)},
	},
	moving.Name: moving.OfResource("How the machine is moved when `host` changes. What isn't set here is taken from the " +
		"`virtfleet_migration_policy` that holds for the machine, then from the provider's block."),
	"timeouts": timeoutsAttribute(),
}

// computedAttributes are what nobody declares.
var computedAttributes = attributes{
	"id":           computedString("UUID of the machine."),
	"current_host": computedString("Host that the machine is on."),
	"current_host_uuid": computedString("UUID by which libvirt knows that host, so that it is recognised when it was " +
		"renamed or removed."),
	"phase": computedString("Phase of the running instance, as KubeVirt names it."),
	"status": computedString("Status of the machine, as KubeVirt prints it: `Running`, `Stopped`, `Paused`, " +
		"`Migrating`, ..."),
	"status_reason": computedString("Why the machine is in that status, in the hypervisor's words."),
	"ready": schema.BoolAttribute{
		MarkdownDescription: "Whether it runs and has what `wait_for` asks for.",
		Computed:            true,
	},
	"ip_addresses": schema.MapAttribute{
		MarkdownDescription: "Addresses by interface, without link-local ones. Null when nobody could say. One source is " +
			"asked, once: the guest agent where it is connected and the guest runs, else libvirt's DHCP leases. So they are " +
			"null while an agent is connected and doesn't answer, where `virtfleet_conditions`, which asks all sources, may " +
			"know them.",
		ElementType: addressesType.ElemType,
		Computed:    true,
	},
	"restart_required": schema.BoolAttribute{
		MarkdownDescription: "Whether the definition has changes that the running guest gets with its next start.",
		Computed:            true,
	},
	"stale_definitions": schema.ListAttribute{
		MarkdownDescription: "Other hosts that have a leftover definition of the machine. An apply removes them.",
		ElementType:         types.StringType,
		Computed:            true,
	},
}

func nested(description string, level attributes, t types.ObjectType) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: level, CustomType: t, Optional: true, Computed: true,
	}
}

// optionalString, optionalInt and optionalBool are attributes that the hypervisor knows: not declared is left alone.
func optionalString(description string) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Optional: true, Computed: true}
}

func optionalInt(description string) schema.Int64Attribute {
	return schema.Int64Attribute{MarkdownDescription: description, Optional: true, Computed: true}
}

func optionalBool(description string) schema.BoolAttribute {
	return schema.BoolAttribute{MarkdownDescription: description, Optional: true, Computed: true}
}

func computedString(description string) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Computed: true}
}

func timeoutsAttribute() schema.Attribute {
	return value.Timeouts(context.Background(), timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "For creating. Default: `10m`, beside `wait_for.timeout`.",
		ReadDescription:   "For reading. Default: `2m`.",
		UpdateDescription: "For updating, moving included. Default: `10m`, beside `wait_for.timeout`, " +
			"`termination_grace_period` and what `migration_options` give a migration.",
		DeleteDescription: "For deleting. Default: `5m`, beside `termination_grace_period`.",
	})
}

func merged(levels ...attributes) attributes {
	all := make(attributes)
	for _, level := range levels {
		for name, a := range level {
			all[name] = a
		}
	}
	return all
}
