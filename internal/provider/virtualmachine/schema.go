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

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
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
	MarkdownDescription: "A VM of the fleet. It is identified by its UUID and found on any configured host, so a VM " +
		"that was moved is found again.\n\nSettings of the definition (CPUs, memory, devices, ...) that you don't set " +
		"are left alone. If you set `disks` or `interfaces`, list every device: anything not listed is detached, and **a " +
		"disk with `pool` is deleted with its data** unless its `on_destroy` is `keep`.\n\nA VM that Terraform has " +
		"marked with `terraform taint`, or that you name with `-replace`, is destroyed before the new one is created. " +
		"The new one gets the name and the disks without `pool`. Disks with `pool` are created again, without their " +
		"data. `create_before_destroy` doesn't work, because two VMs can't have one name.",
	Attributes: mergeAttributes(definitionAttributes, policyAttributes, computedAttributes),
}

// definitionAttributes are what the hypervisor knows.
var definitionAttributes = mergeAttributes(requiredAttributes, declaredAttributes, deviceAttributes, rowAttributes)

var requiredAttributes = attributes{
	"name": schema.StringAttribute{
		MarkdownDescription: "Name of the VM, unique in the fleet.",
		Required:            true,
	},
}

// declaredAttributes are optional: what the hypervisor knows besides devices is computed where it isn't declared.
var declaredAttributes = attributes{
	"type": optionalString("Domain type: `kvm` or `qemu`. Default: the provider's `default_domain_type`."),
	"machine_type": optionalString("Machine type, such as `q35`. If you set it without a version, any version, such as " +
		"`pc-q35-7.2`, is no difference."),
	"arch":     optionalString("Architecture of the guest, such as `x86_64`. A change replaces the VM."),
	"cpu":      nestedAttribute("Virtual CPUs.", cpuAttributes, cpuType),
	"memory":   nestedAttribute("Memory.", memoryAttributes, memoryType),
	"firmware": nestedAttribute("Firmware.", firmwareAttributes, firmwareType),
	"kernel":   nestedAttribute("Kernel to boot directly, without a boot loader.", kernelAttributes, kernelType),
}

var deviceAttributes = attributes{
	"disks": schema.MapNestedAttribute{
		MarkdownDescription: "Disks and drives by a key, which identifies the device. If you set the map, list every " +
			"disk: anything not listed is detached, and a disk with `pool` is deleted with its data unless its " +
			"`on_destroy` is `keep`.",
		NestedObject: schema.NestedAttributeObject{Attributes: diskAttributes, CustomType: diskType},
		CustomType:   disksType,
		Optional:     true,
		Computed:     true,
	},
	"interfaces": schema.MapNestedAttribute{
		MarkdownDescription: "Network interfaces by a key, which identifies the device. If you set the map, list every " +
			"interface: anything not listed is detached.",
		NestedObject: schema.NestedAttributeObject{Attributes: interfaceAttributes, CustomType: interfaceType},
		CustomType:   interfacesType,
		Optional:     true,
		Computed:     true,
	},
	"guest_agent": nestedAttribute("Channel for the QEMU guest agent. New VMs have one unless `enabled` is `false`.",
		switchAttributes, switchType),
	"serial_console": nestedAttribute("Serial console, for `virsh console`. New VMs have one unless "+
		"`enabled` is `false`, or `devices.serials` or `devices.consoles` is set.", switchAttributes, switchType),
}

// policyAttributes are what only we know. Removing one from the configuration removes it.
var policyAttributes = attributes{
	cloudInitName: cloudInitAttribute(),
	ignitionName:  ignitionAttribute(),

	graphicsAccessName:  graphicsAccessAttribute(),
	domain.ExtraDevices: extraDevicesAttribute(),
	profileName:         profileAttribute(),
	"host": schema.StringAttribute{
		MarkdownDescription: "Host that the VM is pinned to, a key of the provider's `hosts`. A change moves the VM, " +
			"live if it runs. If you remove it, the VM stays where it is and is no longer pinned. Not set: the fleet " +
			"places the VM, and it may move; use `virtfleet_migration` to move it.",
		Optional: true,
	},
	"placement": schema.SingleNestedAttribute{
		MarkdownDescription: "Where a VM without `host` may be: when it is created, and when a migration or a drain " +
			"chooses a host. If you name the `target_host` of a `virtfleet_migration`, labels that it lacks are only a " +
			"warning.",
		Attributes: placementAttributes,
		CustomType: placementType,
		Optional:   true,
	},
	"labels": schema.MapAttribute{
		MarkdownDescription: "Labels of the VM, kept in its metadata.",
		ElementType:         types.StringType,
		Optional:            true,
		Validators:          []validator.Map{mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1))},
	},
	"run_strategy": schema.StringAttribute{
		MarkdownDescription: "Whether the VM should run. One of " + value.OneOf(status.RunStrategies) + ". `Always`: at " +
			"each apply, a stopped VM is started and a VM paused by a user is resumed; the host starts the VM when it " +
			"boots. `RerunOnFailure`: a VM that crashed is started. `Manual`: left alone. `Halted`: shut down. `Once`: " +
			"started when it is created, then left alone. After a migration whose run was killed, a running VM that lost " +
			"its autostart is read as `Manual`. Default: `Always`.", Optional: true,
		Validators: []validator.String{stringvalidator.OneOf(status.RunStrategies...)},
	},
	"wait_for": schema.SingleNestedAttribute{
		MarkdownDescription: "What a running VM needs to count as ready. Create and update wait for it. If a new VM " +
			"isn't ready in time, the apply shows the warning `Unable to wait for virtual machine` and keeps the VM with " +
			"`ready = false`; the next apply waits again, and fails if the VM isn't ready then.",
		Attributes: waitAttributes,
		CustomType: waitType,
		Optional:   true,
	},
	"update_policy": schema.StringAttribute{
		MarkdownDescription: "What to do about a change that the running guest can't take. One of " +
			value.OneOf(placement.UpdatePolicies) + ". `Live` fails the plan, `Restart` restarts the guest, `Stage` leaves " +
			"the change to the next start. Default: `Live`.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(placement.UpdatePolicies...)},
	},
	"termination_grace_period": schema.StringAttribute{
		MarkdownDescription: "How long the guest may take to shut down before it is forced off, whenever the provider " +
			"shuts it down: for a destroy, a restart, a drain, or `Halted`. Default: `180s`.",
		CustomType: value.DurationType,
		Optional:   true,
	},
	"deletion_protection": schema.BoolAttribute{
		MarkdownDescription: "Whether to refuse destroying and replacing the VM. Default: `false`.",
		Optional:            true,
	},
	"eviction_strategy": schema.StringAttribute{
		MarkdownDescription: "What happens to the VM when its host is drained. One of " + value.OneOf(evacuation.Strategies) +
			". It takes precedence over the `strategy` of the `virtfleet_eviction_policy` that applies to the VM; " +
			"everything else in that policy still applies, such as its `fallback`. [Draining a " +
			"host](../guides/draining-a-host.md#choose-what-happens-to-a-vm) explains the strategies. Not set: the " +
			"policy's `strategy`, otherwise the provider's `default_eviction_strategy`.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(evacuation.Strategies...)},
	},
	migrationoptions.Name: migrationoptions.OfResource(
		"How the VM is moved when `host` changes. What isn't set here is taken from the " +
			"`virtfleet_migration_policy` that applies to the VM, then from the provider's block."),
	"timeouts": timeoutsAttribute(),
}

// computedAttributes are what can't be declared.
var computedAttributes = attributes{
	"id":           computedString("UUID of the VM."),
	"current_host": computedString("Host that the VM is on."),
	"current_host_uuid": computedString("libvirt's UUID of that host, which identifies it after it was renamed or " +
		"removed."),
	"phase": computedString("Phase of the VM, as KubeVirt names it: `Running`, `Succeeded`, `Failed`, `Unknown`. See " +
		"[Is my VM alive?](../guides/is-my-vm-alive.md)."),
	"status": computedString("Status of the VM, as KubeVirt prints it: `Running`, `Stopped`, `Paused`, `Migrating`, " +
		"... See [Is my VM alive?](../guides/is-my-vm-alive.md)."),
	"status_reason": computedString("libvirt's reason for the status."),
	"ready": schema.BoolAttribute{
		MarkdownDescription: "Whether the VM runs and meets `wait_for`.",
		Computed:            true,
	},
	"ip_addresses": schema.MapAttribute{
		MarkdownDescription: "Addresses by interface, without link-local ones. Null if unknown. Only one source is " +
			"queried: the guest agent if it is connected and the guest runs, otherwise libvirt's DHCP leases. If the agent " +
			"is connected but doesn't answer, they are null; `virtfleet_conditions` queries all sources.",
		ElementType: addressesType.ElemType,
		Computed:    true,
	},
	"restart_required": schema.BoolAttribute{
		MarkdownDescription: "Whether the definition has changes that the guest gets at its next start.",
		Computed:            true,
	},
	"stale_definitions": schema.ListAttribute{
		MarkdownDescription: "Other hosts that have a stale definition of the VM. An apply removes these definitions.",
		ElementType:         types.StringType,
		Computed:            true,
	},
	"left_volumes": schema.ListAttribute{
		MarkdownDescription: "Volumes of disks with `pool` that an interrupted move left on other hosts, as `<host>: " +
			"<pool>/<volume>`. An apply removes them, unless something else uses them.",
		ElementType: types.StringType,
		Computed:    true,
	},
	"persistent": schema.BoolAttribute{
		MarkdownDescription: "Whether the VM has a persistent definition. If a running VM lost it (`virsh undefine`, or " +
			"`virsh migrate` without `--persistent`), an apply defines the VM again where it runs. A VM that was imported " +
			"without one stays so.",
		Computed: true,
	},
	"autostart": schema.BoolAttribute{
		MarkdownDescription: "Whether the host starts the VM when it boots. An apply switches it on for the " +
			"`run_strategy` `Always`, off for `Halted`, and otherwise leaves it alone.",
		Computed: true,
	},
}

func nestedAttribute(description string, level attributes, t types.ObjectType) schema.SingleNestedAttribute {
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
		CreateDescription: "For creating. Default: `10m`, in addition to `wait_for.timeout`.",
		ReadDescription:   "For reading. Default: `2m`.",
		UpdateDescription: "For updating, including moves. Default: `10m`, in addition to `wait_for.timeout`, " +
			"`termination_grace_period`, and `completion_timeout_per_gib` for each GB of the VM's memory and copied disks.",
		DeleteDescription: "For deleting. Default: `5m`, in addition to `termination_grace_period`.",
	})
}

func mergeAttributes(levels ...attributes) attributes {
	all := make(attributes)
	for _, level := range levels {
		for name, a := range level {
			all[name] = a
		}
	}
	return all
}
