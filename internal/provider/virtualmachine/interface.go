package virtualmachine

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// interfaceSources are the attributes of an interface that say what it is connected to.
var interfaceSources = []string{"network", "bridge", "user", "direct", "hostdev", "vdpa", "vhostuser"}

var (
	directAttributes = attributes{
		"device": schema.StringAttribute{MarkdownDescription: "Network device of the host.", Required: true},
		"mode": schema.StringAttribute{
			MarkdownDescription: "How the device is shared: " + value.OneOf(domain.DirectModes) + ". With `passthrough`, the " +
				"VM has the device for itself and can't be moved while it runs.",
			Required: true,
		},
	}
	directType = objectType(directAttributes)

	vhostUserAttributes = attributes{
		"path": schema.StringAttribute{MarkdownDescription: "Path of the socket on the host.", Required: true},
		"mode": schema.StringAttribute{
			MarkdownDescription: "Which end of the socket QEMU is: " + value.OneOf(domain.VHostUserModes) + ". The `server` " +
				"creates it.",
			Required: true,
		},
	}
	vhostUserType = objectType(vhostUserAttributes)
)

// interfaceAttributes are the attributes of an interface. Those that say what it is connected to are Optional only,
// like a disk's source.
var interfaceAttributes = mergeAttributes(blockLevels["interfaces.*"], attributes{
	"network": schema.StringAttribute{MarkdownDescription: "Name of a libvirt network on the host.", Optional: true},
	"bridge":  schema.StringAttribute{MarkdownDescription: "Name of a bridge on the host.", Optional: true},
	"user": schema.BoolAttribute{
		MarkdownDescription: "Whether the interface is connected to QEMU's user-mode network, which needs no " +
			"configuration of the host.",
		Optional: true,
	},
	"direct": schema.SingleNestedAttribute{
		MarkdownDescription: "Network device of the host that the interface is connected to directly (macvtap). VM and " +
			"host can't reach each other over it.",
		Attributes: directAttributes,
		CustomType: directType,
		Optional:   true,
	},
	"hostdev": schema.StringAttribute{
		MarkdownDescription: "PCI address of a network card of the host, for this VM alone, such as a virtual function of " +
			"SR-IOV: `0000:03:00.1`. The VM can't move while it runs, except with `teaming` as `transient`.",
		Optional: true,
	},
	"vdpa": schema.StringAttribute{
		MarkdownDescription: "vDPA device of the host: `/dev/vhost-vdpa-0`. Such a VM can't be moved while it runs. " +
			"Example: `examples/devices/fast-interfaces`.",
		Optional: true,
	},
	"vhostuser": schema.SingleNestedAttribute{
		MarkdownDescription: "Switch in user space, such as Open vSwitch with DPDK, which is reached over a socket. It " +
			"requires `memory = { shared = true }`. Example: `examples/devices/fast-interfaces`.",
		Attributes: vhostUserAttributes,
		CustomType: vhostUserType,
		Optional:   true,
	},
	"other": optionalString("Set by an import for interfaces that no other attribute describes. Copy the value to your " +
		"configuration unchanged; it can't be used for new interfaces."),
	"model": optionalString("Model of the network card: `virtio`, `e1000e`, `e1000`, `igb`, `rtl8139`, `vmxnet3`, or " +
		"another one that libvirt accepts. Default for new interfaces: `virtio`."),
	"mac": optionalString("MAC address. Default for new interfaces: derived from the VM's id and the " +
		"interface's key."),
	"link_up":    optionalBool("Whether the link is up. Default for new interfaces: `true`."),
	"boot_order": bootOrder(),
})

var interfaceType = objectType(interfaceAttributes)

// interfacesToDomain maps declared interfaces. The prior state supplies unknown values.
func interfacesToDomain(declared, prior types.Map) map[string]domain.Interface {
	return devicesToDomain(declared, prior, interfaceToDomain, domain.Interface{User: true}) // It passes all checks.
}

func interfaceToDomain(a object, prior types.Object) domain.Interface {
	i := domain.Interface{
		Model:     text(a.string("model")),
		MAC:       strings.ToLower(text(a.string("mac"))),
		LinkUp:    value.Bool(a.bool("link_up")),
		BootOrder: value.Int(a.int("boot_order")),
	}
	declareRows(&i.Values, "interfaces.*", "interfaces.*.", a)
	from := a
	if slices.ContainsFunc(interfaceSources, func(name string) bool { return a[name] != nil && !isKnown(a[name]) }) {
		if !isSet(prior) {
			// This connection passes all checks.
			i.User = true
			return i
		}
		from = open(prior)
	}
	i.Network, i.Bridge = text(from.string("network")), text(from.string("bridge"))
	i.User, i.Other = from.bool("user").ValueBool(), text(from.string("other"))
	direct := open(from.object("direct"))
	i.Direct, i.DirectMode = text(direct.string("device")), text(direct.string("mode"))
	i.HostDevice, i.VDPA = text(from.string("hostdev")), text(from.string("vdpa"))
	socket := open(from.object("vhostuser"))
	i.VHostUser, i.VHostUserMode = text(socket.string("path")), text(socket.string("mode"))
	return i
}

// withPairedInterfaces returns the prior interfaces under the keys under which they are declared: one that is declared
// with its address is the same device, also under another one's key. Such a key alone has nothing of the device that
// had it.
func withPairedInterfaces(declared, prior types.Map) types.Map {
	before, all := elements(prior), elements(declared)
	moved := false
	for key, nic := range all {
		mac := strings.ToLower(text(open(nic).string("mac")))
		moved = moved || mac != "" && mac != text(open(before[key]).string("mac"))
	}
	if len(before) == 0 || !moved {
		return prior
	}
	pairs := domain.PairInterfaces(interfacesToDomain(prior, types.Map{}), interfacesToDomain(declared, prior))
	paired := maps.Clone(before)
	for key := range all {
		if old, there := pairs[key]; there {
			paired[key] = before[old]
		} else {
			delete(paired, key)
		}
	}
	return mapOf(interfaceType, paired)
}

// interfacesFromDomain maps observed interfaces. everything says that the VM is being imported.
func interfacesFromDomain(interfaces map[string]domain.Interface, prior types.Map, everything bool) types.Map {
	before := elements(prior)
	out := make(map[string]types.Object, len(interfaces))
	for key, i := range interfaces {
		out[key] = interfaceFromDomain(i, open(before[key]), everything)
	}
	return mapOf(interfaceType, out)
}

func interfaceFromDomain(i domain.Interface, prior object, everything bool) types.Object {
	user := types.BoolNull()
	if i.User {
		user = types.BoolValue(true)
	}
	direct := types.ObjectNull(directType.AttrTypes)
	if i.Direct != "" {
		direct = types.ObjectValueMust(directType.AttrTypes, map[string]attr.Value{
			"device": types.StringValue(i.Direct), "mode": types.StringValue(i.DirectMode),
		})
	}
	socket := types.ObjectNull(vhostUserType.AttrTypes)
	if i.VHostUser != "" {
		socket = types.ObjectValueMust(vhostUserType.AttrTypes, map[string]attr.Value{
			"path": types.StringValue(i.VHostUser), "mode": types.StringValue(i.VHostUserMode),
		})
	}
	a := map[string]attr.Value{
		"hostdev":    value.NewStringOrNull(i.HostDevice),
		"vdpa":       value.NewStringOrNull(i.VDPA),
		"vhostuser":  socket,
		"direct":     direct,
		"network":    value.NewStringOrNull(i.Network),
		"bridge":     value.NewStringOrNull(i.Bridge),
		"user":       user,
		"other":      value.NewStringOrNull(i.Other),
		"model":      value.NewStringOrNull(i.Model),
		"mac":        value.NewStringOrNull(i.MAC),
		"link_up":    types.BoolPointerValue(i.LinkUp),
		"boot_order": value.NewInt(i.BootOrder),
	}
	readRows(a, "interfaces.*", rowReader{facts: i.Values, strip: "interfaces.*."}, prior, everything)
	return types.ObjectValueMust(interfaceType.AttrTypes, a)
}
