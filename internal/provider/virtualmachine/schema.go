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

// Schema returns the schema, which is built once, when the provider's schema is requested.
func (r *Resource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = vmSchema
}

var vmSchema = schema.Schema{
	MarkdownDescription: "Manages a VM. It is found by its UUID on any configured host, even after it was " +
		"moved.\n\nAn attribute that you don't set has its `Default:`. With `Default for new ...`, or without one, it " +
		"stays as it is on the host. To remove its value, set `0`, `\"\"`, `{}`, `[]` or `false`: " +
		"see [Sizes, times and names](../guides/values-and-names.md). [What a change " +
		"does](../guides/what-a-change-does.md) lists what changes while the VM runs, at a restart, or with a new " +
		"VM.\n\nIf you set `disks`, `interfaces` or a map in `devices`, list every device: anything not listed is removed, " +
		"and **a disk with `pool` is deleted with its data** unless its `on_destroy` is `keep`. **`disks = {}` removes all " +
		"disks.**\n\nA replacement (`-replace`, another `arch`) destroys the VM first. The new one gets its name and " +
		"the disks that have no `pool`, **but not the data of disks with `pool` or the TPM's state: with `keep`, they stay " +
		"unused.** " +
		"`create_before_destroy` doesn't work, because two VMs can't have one name.",
	Attributes: mergeAttributes(definitionAttributes, policyAttributes, computedAttributes),
}

// definitionAttributes are the attributes that the hypervisor knows.
var definitionAttributes = mergeAttributes(requiredAttributes, declaredAttributes, deviceAttributes, rowAttributes)

var requiredAttributes = attributes{
	"name": schema.StringAttribute{
		MarkdownDescription: "Name of the VM. The plan refuses a name that another VM of the fleet has.",
		Required:            true,
	},
}

// declaredAttributes are optional. What the hypervisor knows, except devices, is computed if it isn't declared.
var declaredAttributes = attributes{
	"type": optionalString("Domain type: `kvm` or `qemu`. Default for new VMs: the provider's `default_domain_type`."),
	"machine_type": optionalString("Machine type. `q35` matches each of its versions, such as `pc-q35-7.2`. Another " +
		"kind, such as `pc`, replaces the VM; another version requires a restart. Default for new VMs: `q35` on x86, " +
		"`virt` on ARM and RISC-V, `s390-ccw-virtio` on s390x, `pseries` on POWER."),
	"arch": optionalString("Architecture of the guest. A change replaces the VM. Default for new VMs: `x86_64`."),
	"cpu": nestedAttribute("Virtual CPUs. Set `vcpus`, or a topology of `sockets`, `cores` and `threads`. Default for "+
		"new VMs: one.", cpuAttributes, cpuType),
	"memory":   nestedAttribute("Memory of the guest, and how the host provides it.", memoryAttributes, memoryType),
	"firmware": nestedAttribute("Firmware that boots the VM.", firmwareAttributes, firmwareType),
	"kernel":   nestedAttribute("Kernel to boot directly, without a boot loader.", kernelAttributes, kernelType),
}

var deviceAttributes = attributes{
	"disks": schema.MapNestedAttribute{
		MarkdownDescription: "Disks and drives by a key. Set exactly one of `file`, `block`, `volume`, `pool`, `network`; " +
			"an empty `cdrom` or `floppy` has none. If you set the map, list every disk: anything not listed is detached, " +
			"and [deleted](../guides/images-and-disks.md#change-a-disk) if it has `pool`.",
		NestedObject: schema.NestedAttributeObject{Attributes: diskAttributes, CustomType: diskType},
		CustomType:   disksType,
		Optional:     true,
		Computed:     true,
	},
	"interfaces": schema.MapNestedAttribute{
		MarkdownDescription: "Network interfaces by a key. Set exactly one of `network`, `bridge`, `direct`, `hostdev`, " +
			"`user`, `vdpa`, `vhostuser`. If you set the map, list every interface: anything not listed is detached. New " +
			"interfaces are in the order of the keys.",
		NestedObject: schema.NestedAttributeObject{Attributes: interfaceAttributes, CustomType: interfaceType},
		CustomType:   interfacesType,
		Optional:     true,
		Computed:     true,
	},
	"guest_agent": nestedAttribute("Channel for the QEMU guest agent. Default for new VMs: `{ enabled = true }`.",
		switchAttributes, switchType),
	"serial_console": nestedAttribute("Serial console, for `virsh console`. Default for new VMs: `{ enabled = true }`, "+
		"unless `devices.serials` or `devices.consoles` is set.", switchAttributes, switchType),
}

// policyAttributes are recorded by the provider alone. Removing one from the configuration removes it from the VM.
var policyAttributes = attributes{
	cloudInitName: cloudInitAttribute(),
	ignitionName:  ignitionAttribute(),

	graphicsAccessName:  graphicsAccessAttribute(),
	domain.ExtraDevices: extraDevicesAttribute(),
	profileName:         profileAttribute(),
	"host": schema.StringAttribute{
		MarkdownDescription: "Host that the VM is pinned to, a key of the provider's `hosts`. A change moves the VM, live " +
			"if it runs. Without it, the VM stays where it is, and drains may move it. Default for new VMs: the provider " +
			"chooses a host.",
		Optional: true,
	},
	"placement": schema.SingleNestedAttribute{
		MarkdownDescription: "Where a VM without `host` may be, when it is created, and when a migration or a drain " +
			"chooses a host. A change doesn't move the VM. If the `target_host` of a `virtfleet_migration` lacks " +
			"`host_labels`, the plan only warns. Default: any host.",
		Attributes: placementAttributes,
		CustomType: placementType,
		Optional:   true,
	},
	"labels": schema.MapAttribute{
		MarkdownDescription: "Labels of the VM, kept in its metadata. Default: none.",
		ElementType:         types.StringType,
		Optional:            true,
		Validators:          []validator.Map{mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1))},
	},
	"run_strategy": schema.StringAttribute{
		MarkdownDescription: "Whether the VM should run. `Always`: yes. `RerunOnFailure`: after its creation and [a " +
			"crash](../guides/new-vms-and-destroy.md#when-the-guest-stops-or-crashes). `Manual`: users decide. `Halted`: no. " +
			"`Once`: after its creation. Default: `Always`.",
		Optional: true,
		// What an import has found becomes the default, or is it: see plannedRunStrategy.
		Computed:   true,
		Validators: []validator.String{value.Among(status.RunStrategies...)},
	},
	"wait_for": schema.SingleNestedAttribute{
		MarkdownDescription: "What a running VM needs to count as ready. Applies wait for it. If a new VM isn't ready in " +
			"time, the apply warns and keeps it with `ready = false`; the next apply waits again, and fails if it still " +
			"isn't ready.",
		Attributes: waitAttributes,
		CustomType: waitType,
		Optional:   true,
	},
	"update_policy": schema.StringAttribute{
		MarkdownDescription: "What to do about a change that requires a restart of a running VM. One of " +
			value.OneOf(placement.UpdatePolicies) + ". `Live`: the plan fails. `Restart`: the apply shuts the guest down and " +
			"starts the VM. `Stage`: the VM gets it when it is shut down and started; a reboot isn't enough. Default: `Live`.",
		Optional:   true,
		Validators: []validator.String{value.Among(placement.UpdatePolicies...)},
	},
	"termination_grace_period": schema.StringAttribute{
		MarkdownDescription: "How long the guest may take to shut down before it is forced off, whenever the provider " +
			"shuts it down: for a destroy, a restart, a drain, or `Halted`. Default: `180s`.",
		CustomType: value.DurationType,
		Optional:   true,
	},
	"deletion_protection": schema.BoolAttribute{
		MarkdownDescription: "Whether to refuse destroying and replacing the VM. It doesn't protect disks that you " +
			"remove from `disks`. Default: `false`.",
		Optional: true,
	},
	onDestroyName: onDestroyAttribute(),
	"eviction_strategy": schema.StringAttribute{
		MarkdownDescription: "What happens to the VM when its host is drained: " + value.OneOf(evacuation.Strategies) +
			". **`None` shuts it down.** See [Eviction strategies](../guides/eviction-strategies.md). " +
			"Default: that of the `virtfleet_eviction_policy` that applies, then `default_eviction_strategy`.",
		Optional:   true,
		Validators: []validator.String{value.Among(evacuation.Strategies...)},
	},
	migrationoptions.Name: migrationoptions.OfResource(
		"How the VM is moved when `host` changes. What isn't set comes from the VM's `virtfleet_migration_policy`, then " +
			"from the provider's block."),
	"timeouts": timeoutsAttribute(),
}

// computedAttributes are the attributes that can't be declared.
var computedAttributes = attributes{
	"id": computedString("UUID of the VM."),
	"current_host": computedString("Host that the VM is on. Terraform saves an output of it when it plans a move: " +
		"if the move fails, the output is the planned host until an apply that refreshes."),
	locationName: locationAttribute(),
	"phase": computedString("Phase of the VM, as KubeVirt names it: `Running`, `Succeeded`, `Failed`, `Unknown`. See " +
		"[Is my VM alive?](../guides/is-my-vm-alive.md)."),
	"status": computedString("Status of the VM, as KubeVirt prints it: `Running`, `Stopped`, `Paused`, `Migrating`, " +
		"... See [Is my VM alive?](../guides/is-my-vm-alive.md)."),
	"status_reason": computedString("libvirt's reason for the status."),
	"ready": schema.BoolAttribute{
		MarkdownDescription: "Whether the VM runs, its creation is finished, and it meets `wait_for`.",
		Computed:            true,
	},
	"ip_addresses": schema.MapAttribute{
		MarkdownDescription: "Addresses by interface, without link-local ones. Null if unknown. Only one source is " +
			"queried: the guest agent if it is connected, even if it doesn't answer; otherwise DHCP leases. " +
			"`virtfleet_conditions` queries all.",
		ElementType: addressesType.ElemType,
		Computed:    true,
	},
	"restart_required": schema.BoolAttribute{
		MarkdownDescription: "Whether the running VM differs from its definition: changes were staged, or someone changed " +
			"the running VM. It gets its definition when it is shut down and started. A reboot in the guest isn't enough.",
		Computed: true,
	},
	"autostart": schema.BoolAttribute{
		MarkdownDescription: "Whether the host starts the VM when it boots. An apply switches it on for the `run_strategy` " +
			"`Always`, off for `Halted`. After a drain has stopped the VM, autostart is off until the maintenance ends.",
		Computed: true,
	},
}

func nestedAttribute(description string, level attributes, t types.ObjectType) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: level, CustomType: t, Optional: true, Computed: true,
	}
}

// optionalString, optionalInt and optionalBool return attributes that the hypervisor knows. If they aren't declared,
// they are left alone.
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
		CreateDescription: "For creating. After that, a VM that runs is kept, with a warning. Otherwise the apply fails, " +
			"and the next one creates or completes the VM. Nothing is added to a value that you set. Default: `10m`, in " +
			"addition to `wait_for.timeout`.",
		ReadDescription: "For reading. Default: `2m`.",
		UpdateDescription: "For updating, including moves. After that, a move is aborted, changes that were made stay, and " +
			"the apply fails: apply again. Default: `10m`, in addition to `wait_for.timeout`, `termination_grace_period`, and " +
			"`completion_timeout_per_gib` for each GB of memory and copied disks.",
		DeleteDescription: "For deleting. After that, the apply fails, nothing is forced off, and the VM stays in the " +
			"state: its guest may have shut down. Default: `5m`, in addition to `termination_grace_period`.",
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
